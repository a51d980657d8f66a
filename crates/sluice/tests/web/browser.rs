//! A headless Chromium in a network namespace, driven over WebDriver (W3C) by chromedriver.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sluice_lab::{Netns, eventually};
use tempfile::TempDir;

use crate::common::WITHIN;

const DRIVER: &str = "/usr/bin/chromedriver";
const BROWSER: &str = "/usr/bin/chromium";
/// In the namespace nobody else listens.
const PORT: u16 = 9515;
/// A browser takes long to start on a loaded machine.
const START: Duration = Duration::from_secs(120);
/// Member of an object that stands for an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

/// Whether there is a browser; prints the reason to stderr if not, and fails when `CI` is set.
pub(crate) fn is_installed() -> bool {
    let missing: Vec<_> = [DRIVER, BROWSER]
        .into_iter()
        .filter(|it| !Path::new(it).exists())
        .collect();
    if missing.is_empty() {
        return true;
    }
    let reason = format!(
        "needs Debian's chromium and chromium-driver: no {}",
        missing.join(", no ")
    );
    assert!(
        env::var_os("CI").is_none(),
        "CI must run the tests of the web page: {reason}"
    );
    eprintln!("SKIP: {reason}");
    false
}

/// An element of the page.
pub(crate) struct Element(String);

/// A browser with one tab. Dropping it ends it.
pub(crate) struct Browser<'a> {
    netns: &'a Netns,
    driver: Child,
    session: String,
    _profile: TempDir,
}

impl<'a> Browser<'a> {
    pub(crate) fn start(netns: &'a Netns) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command: Command = netns.command(DRIVER, &[&format!("--port={PORT}")]);
        // The browser keeps settings and caches there, whatever its profile is.
        command.env("HOME", profile.path());
        let driver = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            netns,
            driver,
            session: String::new(),
            _profile: profile,
        };
        let is_ready = || browser.request("GET", "/status", None).ok()?["ready"].as_bool();
        eventually(START, || is_ready().filter(|it| *it)).expect("chromedriver listens");
        browser.open_session();
        browser
    }

    fn open_session(&mut self) {
        let folder = self._profile.path().display();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--lang=en",
            "--hide-scrollbars",
            "--window-size=1200,900",
            &format!("--user-data-dir={folder}"),
        ];
        // chromedriver's own wait for a page takes seconds where the page keeps asking; every test waits
        // for what it looks at.
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "pageLoadStrategy": "none",
            "goog:chromeOptions": { "binary": BROWSER, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        }}});
        let session = self
            .request("POST", "/session", Some(&capabilities))
            .unwrap();
        self.session = session["sessionId"].as_str().unwrap().to_owned();
    }

    /// A request to chromedriver: the `value` of its answer, or what is wrong.
    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let connected = self.netns.run(|| TcpStream::connect(("127.0.0.1", PORT)));
        let mut stream = connected.map_err(|it| it.to_string())?;
        stream.set_read_timeout(Some(START)).unwrap();
        let body = body.map_or_else(String::new, Value::to_string);
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream
            .write_all(request.as_bytes())
            .map_err(|it| it.to_string())?;
        let (status, body) =
            read_answer(&mut BufReader::new(stream)).map_err(|it| it.to_string())?;
        let mut value: Value = serde_json::from_slice(&body).map_err(|it| it.to_string())?;
        match &*status {
            "200" => Ok(value["value"].take()),
            _ => Err(value["value"]["message"].to_string()),
        }
    }

    fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        self.request(method, &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_call("POST", path, Some(body))
            .unwrap_or_else(|it| panic!("{path} {body}: {it}"))
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// The value of a JavaScript expression.
    #[track_caller]
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.try_value(expression)
            .unwrap_or_else(|it| panic!("{expression}: {it}"))
    }

    fn try_value(&self, expression: &str) -> Result<Value, String> {
        let script = format!("return ({expression})");
        let body = json!({ "script": script, "args": [] });
        self.try_call("POST", "/execute/sync", Some(&body))
    }

    /// Waits until an expression is true. An error is not yet: a page that begins to load has no body.
    #[track_caller]
    pub(crate) fn until(&self, expression: &str) {
        let mut last = Ok(Value::Null);
        let found = eventually(WITHIN, || {
            last = self.try_value(expression);
            (last == Ok(Value::Bool(true))).then_some(())
        });
        if found.is_none() {
            panic!("not {expression}: {last:?}\n{}", self.text("body"));
        }
    }

    /// Waits until the text of an element contains a part.
    #[track_caller]
    pub(crate) fn until_text(&self, css: &str, part: &str) {
        let (css, part) = (Value::from(css), Value::from(part));
        self.until(&format!(
            "(it => Boolean(it?.checkVisibility() && it.innerText.includes({part})))(document.querySelector({css}))"
        ));
    }

    /// The text of an element as somebody sees it.
    #[track_caller]
    pub(crate) fn text(&self, css: &str) -> String {
        let text = self.value(&format!(
            "document.querySelector({})?.innerText ?? ''",
            Value::from(css)
        ));
        text.as_str().unwrap().to_owned()
    }

    /// Every element that fits a selector.
    pub(crate) fn all(&self, css: &str) -> Vec<Element> {
        let css = Value::from(css);
        self.elements(&format!("[...document.querySelectorAll({css})]"))
    }

    /// The elements that are the value of an expression.
    pub(crate) fn elements(&self, expression: &str) -> Vec<Element> {
        let found = self.value(expression);
        let found = found.as_array().unwrap().iter();
        let element = |it: &Value| Element(it[ELEMENT].as_str().unwrap().to_owned());
        found.map(element).collect()
    }

    /// The elements that are the value of an expression, each with the name by which a screen reader calls it. Asked again
    /// where the page was drawn anew meanwhile.
    pub(crate) fn named(&self, expression: &str) -> Vec<(Element, String)> {
        let name = |it: Element| {
            let path = format!("/element/{}/computedlabel", it.0);
            let name = self.try_call("GET", &path, None).ok()?;
            Some((it, name.as_str()?.to_owned()))
        };
        let named = || self.elements(expression).into_iter().map(name).collect();
        eventually(WITHIN, named).expect("the page rests for a moment")
    }

    /// The markup of an element, for messages.
    pub(crate) fn markup(&self, element: &Element) -> String {
        let argument = json!({ ELEMENT: element.0 });
        let script = json!({ "script": "return arguments[0].outerHTML", "args": [argument] });
        self.post("/execute/sync", &script).to_string()
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&self, keys: &str) {
        let steps = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        });
        let steps: Vec<Value> = steps.collect();
        let source = json!({ "type": "key", "id": "keyboard", "actions": steps });
        self.post("/actions", &json!({ "actions": [source] }));
    }

    /// A command of the DevTools protocol.
    fn devtools(&self, command: &str, parameters: &Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("/goog/cdp/execute", &body);
    }

    /// Asks for `light` or `dark` colours.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// The size of the page in CSS pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// A PNG of what is on the screen.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let image = self.try_call("GET", "/screenshot", None).unwrap();
        STANDARD.decode(image.as_str().unwrap().as_bytes()).unwrap()
    }

    /// The new lines of a log: `browser` is the console, `performance` the protocol's events.
    pub(crate) fn log(&self, kind: &str) -> Vec<String> {
        let lines = self.post("/se/log", &json!({ "type": kind }));
        let lines = lines.as_array().unwrap().iter();
        lines
            .map(|it| it["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The addresses of the requests since the last call, without those of the browser's own pages.
    pub(crate) fn requests(&self) -> Vec<String> {
        let events = self.log("performance").into_iter().filter_map(|it| {
            let event: Value = serde_json::from_str(&it).ok()?;
            let message = &event["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            let parameters = &message["params"];
            let is_own = parameters["documentURL"].as_str()?.starts_with("chrome://");
            let url = parameters["request"]["url"].as_str()?;
            (is_request && !is_own).then(|| url.to_owned())
        });
        events.collect()
    }
}

/// Status and body of an answer. chromedriver keeps the connection open, whatever the request says.
fn read_answer(stream: &mut impl BufRead) -> io::Result<(String, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line)?;
        let field = line.to_ascii_lowercase();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, body))
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // It ends the browser. It may not have been started.
        let _ = self.try_call("DELETE", "", None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
