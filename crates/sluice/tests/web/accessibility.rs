//! Names, headings, order of the keyboard, contrast and narrow screens, in every view.

use serde_json::Value;

use crate::web::browser::{Browser, TAB};
use crate::web::world::{URL, World};
use crate::web::{open, require_browser};

/// Each view, and what it shows when it is complete.
pub(crate) const VIEWS: [(&str, &str); 6] = [
    (
        "services",
        "document.querySelectorAll('#service-list tbody tr').length === 7",
    ),
    (
        "service/default/web",
        "document.querySelectorAll('.picture .box').length === 7",
    ),
    ("nodes", "document.querySelectorAll('.card').length === 3"),
    (
        "syncs",
        "document.querySelectorAll('.chart rect').length > 0",
    ),
    (
        "issues",
        "document.querySelectorAll('#issue-list li').length > 0",
    ),
    (
        "explain?from=outside&to=shop/frontend:http",
        "document.querySelectorAll('.steps li').length > 3",
    ),
];

/// What the keyboard comes to.
const CONTROLS: &str = "a[href], button, input, select, summary, [tabindex='0']";

/// Levels of the headings that are seen.
const HEADINGS: &str = "[...document.querySelectorAll('h1, h2, h3, h4')] \
     .filter(it => it.checkVisibility()).map(it => Number(it.tagName[1]))";

/// What has the focus: its place among the controls, before and after all below `main` is drawn anew if the focus is there,
/// the style of its ring, and its markup. The last answers are taken as new ones: another test asks the server.
const FOCUS: &str = r"(async () => {
  const at = () => controls().indexOf(document.activeElement);
  const [before, markup] = [at(), document.activeElement.outerHTML];
  if (document.activeElement.closest('main')) {
    const asked = ask;
    ask = async (path) => (answers.has(path) ? { data: answers.get(path).data, isNew: true } : asked(path));
    state.issues = null;
    await refresh();
    ask = asked;
  }
  return [before, at(), getComputedStyle(document.activeElement).outlineStyle, markup];
})()";

/// Texts whose contrast with the ground behind them is below 4.5 (WCAG 2.2, 1.4.3), with the contrast.
const FAINT: &str = r"(() => {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((it) => it / 255)
      .map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const color = getComputedStyle(it).backgroundColor;
      const alpha = channels(color)[3] ?? 1;
      if (alpha === 1) { return color; }
    }
    return 'rgb(255, 255, 255)';
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || element.closest('script, title')) { continue; }
    const style = getComputedStyle(element);
    const [a, b] = [light(element instanceof SVGElement ? style.fill : style.color), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) { faint.push(`${text}: ${contrast.toFixed(1)}`); }
  }
  return faint;
})()";

/// A view's address below that of the page, and what it shows when it is complete.
type View<'a> = (&'a str, &'a str);

/// All that makes the views of a page one for everybody. Each is opened once: the server has to answer for it.
pub(crate) fn check(browser: &Browser<'_>, url: &str, views: &[View<'_>]) {
    assert_eq!(browser.value("document.documentElement.lang"), "en");
    for (landmark, count) in [("header", 1), ("nav[aria-label]", 1), ("main", 1)] {
        assert_eq!(browser.all(landmark).len(), count, "{landmark}");
    }
    browser.value(&format!(
        "window.controls = () => [...document.querySelectorAll({})].filter(it => it.checkVisibility() && it.tabIndex >= 0)",
        Value::from(CONTROLS)
    ));
    for &(view, is_complete) in views {
        browser.open(&format!("{url}#{view}"));
        browser.until(is_complete);
        check_keyboard(browser, view);
        browser.value("document.querySelectorAll('details').forEach(it => it.open = true)");
        check_names(browser, view);
        check_sight(browser, view, is_complete);
    }
}

/// What screen readers say: headings without a gap, names of controls and tables.
fn check_names(browser: &Browser<'_>, view: &str) {
    let levels = browser.value(HEADINGS);
    let levels: Vec<u64> = levels
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_u64().unwrap())
        .collect();
    assert_eq!(levels[..2], [1, 2], "{view}");
    let has_gap = levels.windows(2).any(|it| it[1] > it[0] + 1);
    assert!(!has_gap, "{view}: {levels:?}");
    let seen = format!(
        "[...document.querySelectorAll({})].filter(it => it.checkVisibility())",
        Value::from(CONTROLS)
    );
    for (control, name) in browser.named(&seen) {
        assert!(
            !name.trim().is_empty(),
            "{view}: {}",
            browser.markup(&control)
        );
    }
    let tables = "[...document.querySelectorAll('table')].filter(it => it.checkVisibility())";
    for (table, name) in browser.named(tables) {
        assert_ne!(name, "", "{view}: {}", browser.markup(&table));
    }
}

/// Tab comes to every control in their order, with a ring around it. A page that is drawn anew leaves the focus where it is.
fn check_keyboard(browser: &Browser<'_>, view: &str) {
    // Where Tab begins.
    browser.value("document.getElementById('skip').focus()");
    let count = browser.value("controls().length").as_u64().unwrap();
    assert!(count >= 5, "{view}: {count}");
    for at in 1..count {
        browser.press(TAB);
        let focus = browser.value(FOCUS);
        assert_eq!(focus[0], at, "{view}: {focus}");
        assert_eq!(focus[1], at, "{view}, drawn anew: {focus}");
        assert_eq!(focus[2], "solid", "{view}: {focus}");
    }
}

/// Every text can be read on its ground, and the view is not wider than its window.
fn check_sight(browser: &Browser<'_>, view: &str, is_complete: &str) {
    let ground = "getComputedStyle(document.body).backgroundColor";
    for width in [360, 1200] {
        browser.resize(width, 800);
        // Pictures are drawn anew for the width.
        browser.until(&format!(
            "{is_complete} && document.documentElement.scrollWidth === {width}"
        ));
        for (scheme, expected) in [("light", "rgb(244, 246, 249)"), ("dark", "rgb(14, 19, 26)")] {
            browser.prefer(scheme);
            browser.until(&format!("{ground} === '{expected}'"));
            browser.value("document.querySelectorAll('details').forEach(it => it.open = true)");
            assert_eq!(
                browser.value(FAINT),
                Value::Array(vec![]),
                "{view} {scheme}"
            );
            let wide = browser.value("document.documentElement.scrollWidth");
            assert_eq!(wide, width, "{view}, all shown");
        }
    }
}

/// Names, headings, landmarks, the keyboard, contrast, narrow screens: one agent and browser for all.
#[test]
fn the_page_is_for_everybody() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    assert_eq!(browser.all("[role=search]").len(), 1);
    check(&browser, URL, &VIEWS);
}
