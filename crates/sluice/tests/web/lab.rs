//! The page of a lab, `sluice lab web`, with the Services of docs/concepts/lab.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use serde_json::json;
use sluice_lab::Netns;

use crate::common::SLUICE;
use crate::web::accessibility::check;
use crate::web::browser::{Browser, ENTER, TAB};
use crate::web::world::TOKEN;
use crate::web::{assert_quiet_at, require_browser};

/// Each view, and what it shows when it is complete.
const VIEWS: [(&str, &str); 4] = [
    (
        "lab",
        "document.querySelectorAll('.drawing .box').length > 10",
    ),
    (
        "services",
        "document.querySelectorAll('#service-list tbody tr').length === 8",
    ),
    (
        "service/default/gateway?from=client&via=node-a",
        "document.querySelectorAll('#way-box .drawing .box.unused').length === 1",
    ),
    (
        "nodes",
        "document.querySelectorAll('#pod-list tbody tr').length === 6",
    ),
];

/// A lab, and the namespace of the machine where its page is served. Dropping it ends both.
struct LabPage {
    name: String,
    netns: Netns,
    server: Option<Child>,
    url: String,
}

impl LabPage {
    fn start(flags: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Tests of the lab end what has such a name and no process.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}-web{number}", std::process::id());
        let netns = Netns::new("web").unwrap();
        let up = netns.command("ip", &["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let mut page = Self {
            name,
            netns,
            server: None,
            url: String::new(),
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/concepts/lab");
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        page.good(&["up", &file("web.yaml")]);
        page.good(&["apply", "-f", &file("more.yaml")]);
        let mut command = page.netns.command(SLUICE, &["lab", "web"]);
        command.args(flags).env("SLUICE_LAB", &page.name);
        let server = command.stdout(Stdio::piped()).spawn().unwrap();
        let server = page.server.insert(server);
        let mut line = String::new();
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|it| it.starts_with("http://"));
        page.url = url.unwrap_or_else(|| panic!("{line}")).to_owned();
        page
    }

    fn lab(&self, words: &[&str]) -> Output {
        let mut command = Command::new(SLUICE);
        command.arg("lab").args(words).env("SLUICE_LAB", &self.name);
        command.output().unwrap()
    }

    #[track_caller]
    fn good(&self, words: &[&str]) {
        let output = self.lab(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    fn browser(&self) -> Browser<'_> {
        Browser::start(&self.netns)
    }
}

impl Drop for LabPage {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended with the lab.
            let _ = server.kill();
            let _ = server.wait();
        }
        self.lab(&["down"]);
    }
}

/// The texts of the drawing that leave their box, or are on another one.
const CROWDED: &str = r"(() => {
  const drawing = document.querySelector('section:not([hidden]) .drawing');
  const texts = [...drawing.querySelectorAll('text')].map((it) => [it.textContent, it.getBBox()]);
  const boxes = [...drawing.querySelectorAll('rect')].map((it) => it.getBBox());
  const shared = (a, b, from, size) => Math.min(a[from] + a[size], b[from] + b[size]) - Math.max(a[from], b[from]);
  const isOn = (a, b) => shared(a, b, 'x', 'width') > 1 && shared(a, b, 'y', 'height') > 3;
  const leaves = (it, box) => isOn(it, box) && it.x >= box.x && it.x + it.width > box.x + box.width;
  const isCrowded = ([, it], at) => boxes.some((box) => leaves(it, box))
    || texts.slice(at + 1).some(([, other]) => isOn(it, other));
  return texts.filter(isCrowded).map(([text]) => text);
})()";

/// One lab for both: to start one takes longer than either.
#[test]
fn a_lab_is_seen_live_by_everybody() {
    require_browser!();
    let page = LabPage::start(&[]);
    let browser = page.browser();
    browser.open(&page.url);
    browser.until_text("#tiles", "6 of 6");
    check(&browser, &page.url, &VIEWS);
    services_and_agents_are_seen_live(&page, &browser);
}

fn services_and_agents_are_seen_live(page: &LabPage, browser: &Browser<'_>) {
    let url = &*page.url;
    browser.open(url);
    browser.until_text("#tiles", "6 of 6");
    let words = "document.querySelector('#lab-picture .drawing').getAttribute('aria-label')";
    let all = "node-a, ready, has shop, web-a. node-b, ready, has orders-v1, web-b.";
    browser.until(&format!("{words}.includes('{all}')"));

    // To a Service with the keyboard, and to another client and node.
    browser.open(&format!("{url}#services"));
    browser.until(VIEWS[1].1);
    let is_found = (0..20).any(|_| {
        browser.press(TAB);
        browser.value("document.activeElement.textContent") == "default/gateway"
    });
    assert!(is_found, "Tab comes to the Service");
    browser.press(ENTER);
    browser.until_text("#way-box", "192.168.100.10:30443/tcp");
    assert_eq!(browser.text("h2:focus"), "default/gateway");
    browser.value(
        "(document.getElementById('via').value = 'node-c', \
         document.getElementById('via').dispatchEvent(new Event('change')))",
    );
    browser.until_text("#way-box", "drop: the policy is Local");
    let dropped = "document.querySelector('#way-box .drawing').getAttribute('aria-label')";
    browser.until(&format!(
        "{dropped}.includes('web-a on node-a gets nothing')"
    ));

    // A phone has the whole picture.
    browser.resize(400, 800);
    browser.open(&format!("{url}#service/default/gateway"));
    browser.until_text("#way-box", "default/gateway");
    let right = "document.querySelector('#way-box .drawing')?.getBoundingClientRect().right";
    browser.until(&format!("{right} <= 400"));
    assert_eq!(
        browser.value("document.getElementById('port-box').hidden"),
        true
    );
    browser.resize(1200, 800);

    // Agents of a lab count connections.
    page.good(&["probe", "client", "node-a:30443", "-n", "5"]);
    browser.open(&format!("{url}nodes/node-a/#service/default/gateway"));
    browser.until_text("#service-box", "connections are counted for both sides");

    // Each port has its way.
    let files = tempfile::tempdir().unwrap();
    let two = files.path().join("two.yaml");
    fs::write(
        &two,
        "{apiVersion: v1, kind: Service, metadata: {name: two}, spec: {selector: {app: web}, clusterIP: 10.96.0.90, \
         ports: [{name: http, port: 80, targetPort: 8080}, {name: admin, port: 81, targetPort: 8080}]}}",
    )
    .unwrap();
    page.good(&["apply", "-f", two.to_str().unwrap()]);
    browser.open(&format!("{url}#service/default/two?from=shop"));
    browser.until_text("#way-box", "10.96.0.90:80/tcp");
    browser.value(
        "(document.getElementById('port').value = 'admin', \
         document.getElementById('port').dispatchEvent(new Event('change')))",
    );
    browser.until_text("#way-box", "10.96.0.90:81/tcp");
    assert!(
        browser
            .value("location.hash")
            .as_str()
            .unwrap()
            .ends_with("port=admin")
    );
    page.good(&["delete", "service", "two"]);

    // Nothing listens at the targetPort: ready pods do not answer.
    let wrong = files.path().join("wrong.yaml");
    fs::write(
        &wrong,
        "{apiVersion: v1, kind: Service, metadata: {name: wrong}, spec: {selector: {app: web}, \
         ports: [{port: 80, targetPort: 9}]}}",
    )
    .unwrap();
    browser.open(&format!("{url}#lab"));
    browser.until_text("#lab-picture", "default/gateway");
    browser.until("!document.getElementById('lab-picture').textContent.includes('default/two')");
    let before = browser.text("#tiles > div:last-child dd");
    let (answer, all) = before.split_once(" of ").unwrap();
    page.good(&["apply", "-f", wrong.to_str().unwrap()]);
    browser.until_text("#lab-picture", "all refuse");
    let more = all.parse::<u32>().unwrap() + 1;
    browser.until_text("#tiles > div:last-child dd", &format!("{answer} of {more}"));
    browser.open(&format!("{url}#services"));
    browser.until_text("#service-list", "nothing listens");
    page.good(&["delete", "service", "wrong"]);
    browser.open(&format!("{url}#lab"));
    browser.until_text("#tiles > div:last-child dd", &before);

    // Names of any length and width stay in their boxes.
    let long = files.path().join("long.yaml");
    let name = "wwwwwwwwwwwwwwwwwwww-recommendation-engine-v895v-mmmmmmmmmmmm";
    fs::write(
        &long,
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: long}}}}, spec: {{containers: [{{name: c, image: any}}]}}}}\n---\n\
             {{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{selector: {{app: long}}, ports: [{{port: 80}}]}}}}"
        ),
    )
    .unwrap();
    page.good(&["apply", "-f", long.to_str().unwrap()]);
    for width in [400, 800, 1200] {
        browser.resize(width, 800);
        let way = format!("service/default/{name}");
        for (view, shown) in [("lab", "wwww"), (&*way, "100 %")] {
            browser.open(&format!("{url}#{view}"));
            let text = "document.querySelector('section:not([hidden]) .drawing')?.textContent";
            browser.until(&format!("{text}?.includes('{shown}')"));
            assert_eq!(browser.value(CROWDED), json!([]), "{view} at {width}");
        }
    }
    page.good(&["delete", "-f", long.to_str().unwrap()]);

    // A pod ends while the page is open, and a screen reader hears of it.
    browser.open(&format!("{url}#service/default/web?from=shop"));
    browser.until("document.querySelectorAll('#way-box .drawing .box.used').length === 4");
    page.good(&["delete", "pod", "web-b", "--grace-period", "0"]);
    browser.until("document.querySelectorAll('#way-box .drawing .box.used').length === 3");
    let news = "document.getElementById('news').textContent";
    browser.until(&format!("{news}.includes('2 of 2 endpoints ready')"));

    // The agent of a node, and back.
    browser.open(&format!("{url}#nodes"));
    browser.until_text("#node-list", "node-b");
    browser.value("document.querySelector('#node-list [data-key=node-b]').click()");
    browser.until_text("#service-list", "default/gateway");
    assert_eq!(browser.text("#node"), "node-b");
    assert_eq!(browser.value("location.pathname"), "/nodes/node-b/");
    browser.until_text("#state", "in sync");
    browser.value("document.getElementById('to-lab').click()");
    browser.until_text("#name", &page.name);
    assert_quiet_at(browser, url);

    // The lab ends, and its page with it.
    page.good(&["down"]);
    browser.until_text("#banner", "No answer");
}

/// The pictures of docs/lab.md: with `SLUICE_BLESS` they are written. Else each of them is there; another test shows
/// every view in both colours.
#[test]
fn golden_pictures_of_a_lab() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/web");
    let file = |name: &str, scheme: &str| folder.join(format!("{name}-{scheme}-1200.png"));
    let pictures = [(0, "lab", 760), (2, "lab-service", 860)];
    if env::var_os("SLUICE_BLESS").is_none() {
        for name in pictures.map(|it| it.1) {
            for file in ["light", "dark"].map(|it| file(name, it)) {
                assert!(file.exists(), "{}: `make bless` writes it", file.display());
            }
        }
        return;
    }
    require_browser!();
    let page = LabPage::start(&[]);
    let browser = page.browser();
    for (at, name, height) in pictures {
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            browser.resize(1200, height);
            browser.open(&format!("{}#{}", page.url, VIEWS[at].0));
            browser.until(VIEWS[at].1);
            // A machine that was busy shows what was known before.
            browser.until("document.getElementById('banner').hidden");
            // The name of the test's lab is nothing to show.
            browser.value("document.getElementById('name').textContent = 'lab'");
            fs::write(file(name, scheme), browser.screenshot()).unwrap();
        }
    }
}

#[test]
fn a_lab_s_page_on_the_network_asks_for_the_token() {
    require_browser!();
    let refused = Command::new(SLUICE)
        .args(["lab", "web", "--web-bind-address", "0.0.0.0:0"])
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("give --web-token-file"), "{why}");

    let files = tempfile::tempdir().unwrap();
    let token = files.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let flags = ["--web-bind-address", "0.0.0.0:10298", "--web-token-file"];
    let page = LabPage::start(&[&flags[..], &[token.to_str().unwrap()]].concat());
    let browser = page.browser();
    let url = "http://127.0.0.1:10298/";
    // Neither the lab's data nor an agent's without the token.
    browser.open(&format!("{url}nodes/node-a/"));
    browser.until("document.activeElement.id === 'token'");
    assert_eq!(browser.text("#service-list tbody"), "");
    browser.open(url);
    browser.until("document.activeElement.id === 'token' && !document.getElementById('to-lab')");
    browser.press("not the token");
    browser.press(ENTER);
    browser.until_text("#token-form", "The lab refused this token.");
    browser.press(TOKEN);
    browser.press(ENTER);
    browser.until_text("#tiles", "6 of 6");
    // It is good for the agents, too.
    browser.open(&format!("{url}nodes/node-a/"));
    browser.until_text("#service-list", "default/gateway");
}
