//! `sluice top` on a terminal of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::pty::{OpenptyResult, Winsize, openpty};
use sluice_lab::{Cluster, eventually, require_netns};
use vt100::Screen;

use crate::common::{Agent, Files, SLUICE, WITHIN};

const WEB: &str = "kind: Service\napiVersion: v1\nmetadata: {name: web, namespace: default}\n\
    spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}\n---\n\
    kind: EndpointSlice\napiVersion: discovery.k8s.io/v1\n\
    metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}\n\
    addressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{addresses: [10.244.0.5]}]\n";

const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(100).unwrap();

/// A program on a terminal, and what it has written there.
struct OnTerminal {
    child: Child,
    keys: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(mut command: Command) -> Self {
        let size = Winsize {
            ws_row: ROWS.get(),
            ws_col: COLUMNS.get(),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let end = |it: &OwnedFd| Stdio::from(it.try_clone().unwrap());
        command
            .stdin(end(&slave))
            .stdout(end(&slave))
            .stderr(end(&slave));
        let child = command.spawn().unwrap();
        drop((slave, command));
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, sink) = (File::from(master.try_clone().unwrap()), written.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Ends with an error when nobody has the other end any more.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self {
            child,
            keys: master.into(),
            written,
        }
    }

    /// The terminal as somebody sees it.
    fn screen(&self) -> Screen {
        let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
        terminal.process(&self.written.lock().unwrap());
        terminal.screen().clone()
    }

    #[track_caller]
    fn until(&self, text: &str) {
        let found = eventually(WITHIN, || {
            self.screen().contents().contains(text).then_some(())
        });
        assert!(
            found.is_some(),
            "no {text:?} in\n{}",
            self.screen().contents()
        );
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top(files: &Files) -> Command {
    let mut command = Command::new(SLUICE);
    command
        .args(["top", "--interval=100ms", "--socket"])
        .arg(files.socket());
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    command
}

#[test]
fn services_open_and_the_terminal_is_put_back() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").build().unwrap();
    let files = Files::new();
    files.write("web.yaml", WEB);
    let agent = Agent::run(&files, files.proxy(cluster.node("node-a").netns()));
    let mut terminal = OnTerminal::start(top(&files));
    terminal.until("default/web");
    terminal.press("\r");
    terminal.until("10.244.0.5:8080");
    drop(agent);
    terminal.until("no answer: ");
    assert!(terminal.screen().alternate_screen());
    terminal.press("q");
    let status = eventually(WITHIN, || terminal.child.try_wait().unwrap()).unwrap();
    assert!(status.success(), "{status}");
    let is_back = || (!terminal.screen().alternate_screen()).then_some(());
    eventually(WITHIN, is_back).expect("the screen as it was before");
}

#[test]
fn top_without_a_terminal_or_an_agent_is_an_error_in_one_line() {
    let files = Files::new();
    let output = top(&files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said,
        "sluice: top needs a terminal: `sluice status --services --watch` needs none\n"
    );
    let mut terminal = OnTerminal::start(top(&files));
    let status = eventually(WITHIN, || terminal.child.try_wait().unwrap()).unwrap();
    assert_eq!(status.code(), Some(1));
    terminal.until("sluice: ");
    assert!(!terminal.screen().alternate_screen());
}
