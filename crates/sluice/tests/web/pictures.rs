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

/// With `SLUICE_BLESS` the pictures are written; else each of them is there.
#[test]
fn golden_pictures() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    // A line of half a minute is nicer to see.
    let seconds = if env::var_os("SLUICE_BLESS").is_some() {
        30
    } else {
        1
    };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/web");
    for ready in [false, true, false, true, false, true] {
        world.set_ready(ready);
        let ready = if ready { 4 } else { 3 };
        let web = format!("state.services.find(it => it.name === 'default/web').ready === {ready}");
        browser.until(&web);
    }
    for ((view, is_complete), height) in VIEWS.into_iter().zip(HEIGHTS) {
        let narrow = NARROW.contains(&view).then_some(("light", 360));
        for (scheme, width) in [("light", 1200), ("dark", 1200)].into_iter().chain(narrow) {
            browser.prefer(scheme);
            browser.resize(width, height);
            browser.open(&format!("{URL}#{view}"));
            browser.until(is_complete);
            let is_busy = format!("state.history.length > {seconds} && state.history.at(-1) > 0");
            let busy = eventually(BUSY, || {
                world.connect(15);
                (browser.value(&is_busy) == true).then_some(())
            });
            busy.expect("connections are counted");
            let name = view.split(['?', '/']).next().unwrap();
            let file = folder.join(format!("{name}-{scheme}-{width}.png"));
            match env::var_os("SLUICE_BLESS") {
                None => assert!(file.exists(), "{}: `make bless` writes it", file.display()),
                Some(_) => {
                    fs::create_dir_all(&folder).unwrap();
                    fs::write(&file, browser.screenshot()).unwrap();
                }
            }
        }
    }
}
