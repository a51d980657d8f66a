//! The pictures of docs/web-page.md.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use sluice_lab::eventually;

use crate::web::accessibility::VIEWS;
use crate::web::world::{URL, World};
use crate::web::{open, require_browser};

/// Height of each view's picture in CSS pixels.
const HEIGHTS: [u32; 6] = [760, 800, 680, 560, 480, 900];
/// The views that the documentation shows on a narrow screen too.
const NARROW: [&str; 2] = ["services", "service/default/web"];

/// Timeout of a line of new connections.
const BUSY: Duration = Duration::from_secs(120);

/// The files of a view's pictures, each with its colours and its width.
fn pictures(view: &str) -> impl Iterator<Item = (PathBuf, &'static str, u32)> {
    let narrow = NARROW.contains(&view).then_some(("light", 360));
    let name = view.split(['?', '/']).next().unwrap().to_owned();
    let all = [("light", 1200), ("dark", 1200)].into_iter().chain(narrow);
    all.map(move |(scheme, width)| {
        let file = format!("../../docs/web/{name}-{scheme}-{width}.png");
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        (file, scheme, width)
    })
}

/// With `SLUICE_BLESS` the pictures are written. Else each of them is there; other tests show every view in both
/// colours and on a narrow screen.
#[test]
fn golden_pictures() {
    if env::var_os("SLUICE_BLESS").is_none() {
        for (file, ..) in VIEWS.iter().flat_map(|(view, _)| pictures(view)) {
            assert!(file.exists(), "{}: `make bless` writes it", file.display());
        }
        return;
    }
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    for ready in [false, true, false, true, false, true] {
        world.set_ready(ready);
        let ready = if ready { 4 } else { 3 };
        let web = format!("state.services.find(it => it.name === 'default/web').ready === {ready}");
        browser.until(&web);
    }
    for ((view, is_complete), height) in VIEWS.into_iter().zip(HEIGHTS) {
        for (file, scheme, width) in pictures(view) {
            browser.prefer(scheme);
            browser.resize(width, height);
            browser.open(&format!("{URL}#{view}"));
            browser.until(is_complete);
            // A line of half a minute is nicer to see.
            let busy = eventually(BUSY, || {
                world.connect(15);
                // A machine that was busy shows what was known before.
                let is_busy = "state.history.length > 30 && state.history.at(-1) > 0 \
                               && document.getElementById('banner').hidden";
                (browser.value(is_busy) == true).then_some(())
            });
            busy.expect("connections are counted");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, browser.screenshot()).unwrap();
        }
    }
}
