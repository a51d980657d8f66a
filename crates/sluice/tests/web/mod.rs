//! The web page in a headless Chromium, beside a running agent. Needs root, and Debian's chromium and
//! chromium-driver.

mod accessibility;
mod browser;
mod lab;
mod pictures;
mod world;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;
use sluice_lab::eventually;

use crate::cluster;
use crate::common::WITHIN;
use browser::{Browser, ENTER, TAB};
use world::{TOKEN, URL, World};

/// Ends a test where there is no browser.
macro_rules! require_browser {
    () => {
        sluice_lab::require_netns!();
        if !$crate::web::browser::is_installed() {
            return;
        }
    };
}
pub(crate) use require_browser;

/// The page of an agent with the world's Services.
fn open(world: &World) -> Browser<'_> {
    let browser = Browser::start(world.netns());
    browser.open(URL);
    browser.until_text("#service-list", "default/web");
    browser
}

/// Nothing was asked elsewhere, and the console has no line.
#[track_caller]
fn assert_quiet(browser: &Browser<'_>) {
    assert_quiet_at(browser, URL);
}

/// The same of a page at another address.
#[track_caller]
fn assert_quiet_at(browser: &Browser<'_>, url: &str) {
    let requests = browser.requests();
    assert!(requests.len() > 3, "{requests:?}");
    let is_elsewhere = |it: &&String| !it.starts_with(url) && !it.starts_with("data:");
    let elsewhere: Vec<_> = requests.iter().filter(is_elsewhere).collect();
    assert_eq!(elsewhere, [""; 0]);
    // On a slow machine the browser complains about its own first page.
    let mut lines = browser.log("browser");
    lines.retain(|it| !it.starts_with("chrome://"));
    assert_eq!(lines, [""; 0]);
}

#[test]
fn a_service_is_found_by_keyboard_and_drawn() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    let rows = "[...document.querySelectorAll('#service-list tbody th a')]";
    let names = format!("{rows}.map(it => it.textContent).join(' ')");
    let all = "staging/mirror shop/checkout default/web kube-system/kube-dns shop/cart shop/db \
               shop/frontend";
    assert_eq!(browser.value(&names), all, "the worst first");

    browser.press("/");
    browser.press("web");
    browser.until(&format!("{names} === 'default/web'"));
    assert_eq!(browser.text("#shown"), "1 of 7 Services");
    let news = "document.getElementById('news').textContent";
    assert_eq!(browser.value(news), "1 of 7 Services");
    let is_found = (0..12).any(|_| {
        browser.press(TAB);
        browser.value("document.activeElement.textContent") == "default/web"
    });
    assert!(is_found, "Tab comes to the Service");
    browser.press(ENTER);
    browser.until_text("#service-box", "of 4 ready");
    assert_eq!(browser.text("h2:focus"), "default/web");

    let words = "document.querySelector('.picture').getAttribute('aria-label')";
    let start = "Clients of ClusterIP 10.96.0.10:80/tcp, LoadBalancer 203.0.113.10:80/tcp, \
                 NodePort IPv4 NodePort 30080/tcp are sent to 4 endpoints of 4: ";
    browser.until(&format!("{words}.startsWith({})", Value::from(start)));
    for (boxes, count) in [("used", 4), ("inside", 1), ("outside", 2)] {
        let css = format!(".picture .box.{boxes}");
        assert_eq!(browser.all(&css).len(), count, "{css}");
    }
    let counted = eventually(WITHIN, || {
        world.connect(20);
        let is_counted = format!(
            "{words}.endsWith('those of the connections counted.') && state.history.at(-1) > 0"
        );
        (browser.value(&is_counted) == true).then_some(())
    });
    assert!(counted.is_some(), "{}", browser.value(words));
    assert_quiet(&browser);
}

#[test]
fn changed_manifests_appear_without_a_reload() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    let others = fs::read_to_string(world.files.manifests().join("others.yaml")).unwrap();
    let others = others.replace("name: checkout", "name: payment");
    world.files.write("others.yaml", &others);
    browser.until_text("#service-list", "shop/payment");
    let news = "document.getElementById('news').textContent";
    browser.until(&format!(
        "{news} === 'shop/payment added; shop/checkout removed'"
    ));
    browser.open(&format!("{URL}#service/default/web"));
    browser.until_text("#service-box", "4 of 4 ready");
    world.set_ready(false);
    browser.until_text("#service-box", "3 of 4 ready");
    browser.until("document.querySelectorAll('.picture .box.unused').length === 1");
    assert_quiet(&browser);
}

/// Namespaces, and the pods of one, by the policies of the cluster.
#[test]
fn policies_are_drawn() {
    require_browser!();
    let world = World::start(&["--network-policy"]);
    world
        .files
        .write("policies.yaml", include_str!("policies.yaml"));
    let browser = open(&world);
    browser.until("!document.getElementById('to-policies').hidden");
    let drawn = || {
        browser.open(&format!("{URL}#services"));
        browser.open(&format!("{URL}#policies/shop"));
        browser.until("document.querySelectorAll('#policy-box table').length === 2");
        browser
            .text("#policy-box")
            .contains("tcp/5432")
            .then_some(())
    };
    assert!(
        eventually(WITHIN, drawn).is_some(),
        "{}",
        browser.text("#policy-box")
    );
    let row = "[...document.querySelectorAll('#policy-box tbody tr')][0].textContent";
    assert_eq!(browser.value(row), "other–some");
    assert_quiet(&browser);
}

#[test]
fn every_view_has_its_answer() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    browser.open(&format!("{URL}#nodes"));
    browser.until_text("#node-list", "Zone west");
    browser.value("document.querySelector('[data-key=node-b] summary').click()");
    browser.until_text("[data-key=node-b]", "web-5d9c7-m4qz");
    browser.open(&format!("{URL}#syncs"));
    browser.until("document.querySelectorAll('#sync-box .chart rect').length > 0");
    browser.value("document.querySelector('#sync-box summary').click()");
    browser.until_text("#sync-box table", "comparison");
    browser.open(&format!("{URL}#issues"));
    browser.until_text("#issue-list", "198.51.100.7");

    // One endpoint has all that comes from outside, whatever was counted.
    browser.open(&format!("{URL}#service/shop/frontend"));
    browser.until_text("#service-box", "no connection has been counted yet");
    let shares =
        "[...document.querySelectorAll('#service-box .picture')].map(it => it.ariaLabel)[0]";
    let of_each = "on node-a, 50 % inside, 100 % outside; 10.244.1.31:8080 on node-b, 50 % inside, 0 % outside";
    browser.until(&format!("{shares}.includes('{of_each}')"));
    world.dial("10.96.10.3:80");
    browser.until_text("#service-box", "connections are counted for both sides");
    browser.until(&format!("{shares}.includes('{of_each}')"));

    browser.open(&format!("{URL}#explain"));
    browser.until("document.activeElement.id === 'explain-title'");
    browser.press(TAB);
    browser.press("outside");
    browser.press(TAB);
    browser.press("shop/frontend:http");
    browser.press(ENTER);
    browser.until_text("#explanation", "externalTrafficPolicy Local");
    assert_eq!(browser.text("#explanation .badge"), "goes to an endpoint");
    assert_quiet(&browser);
    browser.open(&format!("{URL}#explain?from=node&to=shop/backend"));
    browser.until_text("#explanation", "there is no Service shop/backend");
}

#[test]
fn a_tab_that_nobody_sees_asks_nothing() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    let hide = |it: bool| {
        let hidden = format!(
            "Object.defineProperty(document, 'hidden', {{ value: {it}, configurable: true }})"
        );
        browser.value(&hidden);
        browser.value("document.dispatchEvent(new Event('visibilitychange'))");
    };
    hide(true);
    browser.value("window.hiddenAt = performance.now()");
    browser.until("performance.now() - window.hiddenAt > 1500");
    browser.requests();
    browser.until("performance.now() - window.hiddenAt > 4500");
    assert_eq!(browser.requests(), [""; 0]);
    hide(false);
    let asks = eventually(WITHIN, || browser.requests().pop());
    assert!(asks.is_some(), "it asks again");
}

#[test]
fn what_was_known_stays_when_the_agent_ends() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    world.stop();
    browser.until_text("#banner", "No answer");
    assert_eq!(browser.text("#state"), "no answer");
    assert_eq!(browser.all("#service-list tbody tr").len(), 7);
}

#[test]
fn objects_that_may_be_old_are_the_first_that_the_page_says() {
    require_browser!();
    let world = cluster::World::new();
    let _agent = world.start(&["--web-bind-address=127.0.0.1:10261"]);
    let api = &world.api;
    let browser = Browser::start(world.netns());
    browser.open(URL);
    browser.until_text("#service-list", "default/web");
    browser.until_text("#state", "in sync");
    api.stop().unwrap();
    browser.until_text("#state", "stale since 20");
    browser.until_text("#state", "rules may be old");
    let state = "document.getElementById('state').dataset.tone";
    assert_eq!(browser.value(state), "warn");
    browser.open(&format!("{URL}#issues"));
    browser.until_text("#issue-list li:first-child", "API server");
    let first = browser.text("#issue-list li:first-child");
    assert!(first.starts_with("Stale"), "{first}");
    api.start_again().unwrap();
    browser.until_text("#state", "in sync");
}

/// An answer that takes long is asked for less often, one that did not come is not.
#[test]
fn a_server_that_hung_is_asked_again_soon() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    // In place of 15 s.
    browser.value(
        "Boolean(AbortSignal.timeout = (it => () => it.call(AbortSignal, 3000))(AbortSignal.timeout))",
    );
    world.signal(Signal::SIGSTOP);
    browser.until_text("#banner", "No answer");
    world.signal(Signal::SIGCONT);
    browser.until("document.getElementById('banner').hidden");
}

#[test]
fn text_of_others_is_text() {
    require_browser!();
    let world = World::start(&[]);
    let browser = open(&world);
    let markup = "<img src=x onerror=\"document.title='gone'\">";
    world.files.write("<b>.yaml", &format!("{markup}: [\n"));
    browser.open(&format!("{URL}#issues"));
    browser.until_text("#issue-list", "<b>.yaml");
    let words = format!("from={markup}&to=<script>");
    let words = words.replace(' ', "%20").replace('"', "%22");
    browser.open(&format!("{URL}#explain?{words}"));
    browser.until_text("#explanation", "<img src=x");
    assert_eq!(browser.all("main img, main b, main script").len(), 0);
}

#[test]
fn the_page_asks_for_the_token() {
    require_browser!();
    let world = World::start(&["--web-token-file"]);
    let browser = Browser::start(world.netns());
    browser.open(URL);
    browser.until("document.activeElement.id === 'token'");
    assert_eq!(browser.text("#service-list tbody"), "");
    browser.press("not the token");
    browser.press(ENTER);
    browser.until_text("#token-form", "The agent refused this token.");
    browser.press(TOKEN);
    browser.press(ENTER);
    browser.until_text("#service-list", "default/web");
    browser.value("location.reload()");
    browser.until_text("#service-list", "default/web");
    assert_eq!(
        browser.value("localStorage.length + document.cookie.length"),
        0
    );
}
