//! `sluice dns` on loopback, with its pages.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use simple_dns::TYPE;
use sluice_lab::eventually;

use crate::common::{Files, SLUICE, WITHIN};
use crate::dns::client::ask;

/// A running server, killed when dropped.
pub(crate) struct Dns {
    pub(crate) files: Files,
    pub(crate) address: SocketAddr,
    child: Option<Child>,
    /// Where its objects come from: a flag and a path, or nothing where the Corefile says it.
    source: Vec<String>,
    /// Where `ready` and `prometheus` are.
    ready: SocketAddr,
    metrics: SocketAddr,
}

impl Dns {
    /// A server of a folder with these manifests, whose block has these plugins.
    pub(crate) fn start(manifests: &str, plugins: &str) -> Self {
        let files = Files::new();
        files.write("objects.yaml", manifests);
        let folder = files.manifests().display().to_string();
        Self::run(files, vec!["--manifests".to_owned(), folder], plugins)
    }

    /// A server of an API server's objects.
    pub(crate) fn of_api(kubeconfig: &str, plugins: &str) -> Self {
        let files = Files::new();
        let path = files.0.path().join("kubeconfig");
        fs::write(&path, kubeconfig).unwrap();
        let path = path.display().to_string();
        Self::run(files, vec!["--kubeconfig".to_owned(), path], plugins)
    }

    /// A server whose plugins say where its objects are.
    pub(crate) fn of_corefile(plugins: &str) -> Self {
        Self::run(Files::new(), Vec::new(), plugins)
    }

    fn run(files: Files, source: Vec<String>, plugins: &str) -> Self {
        let mut dns = Self {
            files,
            address: free_address(),
            child: None,
            source,
            ready: free_page(),
            metrics: free_page(),
        };
        dns.write_corefile(plugins);
        dns.child = Some(dns.command().spawn().unwrap());
        dns
    }

    fn corefile(&self) -> PathBuf {
        self.files.0.path().join("Corefile")
    }

    pub(crate) fn write_corefile(&self, plugins: &str) {
        let draft = self.files.0.path().join("draft");
        fs::write(&draft, self.block(plugins)).unwrap();
        fs::rename(draft, self.corefile()).unwrap();
    }

    /// Lets the server read these plugins once: whoever reads once more finds the `later` ones.
    pub(crate) fn write_corefile_once(&self, plugins: &str, later: &str) {
        let draft = self.files.0.path().join("once");
        fs::write(&draft, self.block(plugins)).unwrap();
        let opened = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
        opened.add_watch(&draft, AddWatchFlags::IN_OPEN).unwrap();
        fs::rename(draft, self.corefile()).unwrap();
        let read = eventually(WITHIN, || opened.read_events().ok());
        read.expect("the server reads its Corefile");
        self.write_corefile(later);
    }

    fn block(&self, plugins: &str) -> String {
        format!(
            ".:{} {{\nbind {}\nready {}\nprometheus {}\n{plugins}\n}}\n",
            self.address.port(),
            self.address.ip(),
            self.ready,
            self.metrics
        )
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(SLUICE);
        command.arg("dns").arg("--conf").arg(self.corefile());
        command.args(&self.source);
        command.stderr(Stdio::piped());
        command
    }

    #[track_caller]
    pub(crate) fn until(&self, name: &str, kind: TYPE, wanted: &[&str]) {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = ask(self.address, name, kind);
            (last.as_ref()?.records == wanted).then_some(())
        });
        assert!(found.is_some(), "{name} {kind:?}: {last:?}");
    }

    /// Waits until `/ready` has this status.
    #[track_caller]
    pub(crate) fn until_ready_is(&self, status: u16) {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = get(self.ready, "/ready");
            (last.as_ref()?.0 == status).then_some(())
        });
        assert!(found.is_some(), "/ready: {last:?}");
    }

    /// Waits until a metric without labels has this value.
    #[track_caller]
    pub(crate) fn until_metric(&self, name: &str, value: &str) {
        let line = format!("{name} {value}");
        let mut last = String::new();
        let found = eventually(WITHIN, || {
            last = self.metrics()?;
            last.lines().any(|it| it == line).then_some(())
        });
        let last = last.lines().find(|it| it.starts_with(name));
        assert!(found.is_some(), "{line}: {last:?}");
    }

    pub(crate) fn metrics(&self) -> Option<String> {
        Some(get(self.metrics, "/metrics")?.1)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().unwrap().id();
        kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
    }

    /// Ends it. What it said.
    pub(crate) fn end(mut self) -> String {
        let child = self.child.take().unwrap();
        let id = Pid::from_raw(child.id().try_into().unwrap());
        // It may have ended by itself.
        let _ = kill(id, Signal::SIGTERM);
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A UDP port that nobody has, nor its number over TCP: at an address of loopback that is this process' own.
pub(crate) fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind((own_address(), 0)).unwrap();
    socket.local_addr().unwrap()
}

fn free_page() -> SocketAddr {
    let listener = TcpListener::bind((own_address(), 0)).unwrap();
    listener.local_addr().unwrap()
}

fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = process::id().to_be_bytes();
    Ipv4Addr::new(127, high + 1, middle, low)
}

/// Status and body of a page; `None` while nobody serves it.
pub(crate) fn get(server: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: dns\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
