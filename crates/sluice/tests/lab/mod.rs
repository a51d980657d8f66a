//! `sluice lab` as its users see it: every test has a lab of its own.

mod accounts;
mod experiments;
mod faults;
mod full_disk;
mod hooks;
mod images;
mod isolation;
mod jobs;
pub(crate) mod kubectl;
mod life;
mod names;
mod pcap;
mod pictures;
mod policies;
mod probes;
mod streams;
mod system;
mod tutorials;
mod vm_ipvs;
mod volumes;
mod workloads;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use sluice_lab::{eventually, netns_available};

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// Far longer than anything takes.
const WITHIN: Duration = Duration::from_secs(60);

/// Where root's labs are.
const LABS: &str = "/var/lib/sluice/labs";

/// A lab that goes with the value. Its name has the test's process id, so that a killed test's lab is found.
struct Lab {
    name: String,
    files: tempfile::TempDir,
    /// The folder of labs, if it is not the usual one.
    labs: Option<PathBuf>,
}

impl Lab {
    /// A name without a lab; `None` where namespaces cannot be made.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !netns_available() {
            return None;
        }
        sweep();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            name: format!("t{}-{number}", std::process::id()),
            files: tempfile::tempdir().unwrap(),
            labs: None,
        })
    }

    /// A lab that runs, with the manifests of `docs/lab`.
    fn up(flags: &[&str]) -> Option<Self> {
        let lab = Self::new()?;
        let examples = format!("{}/../../docs/lab", env!("CARGO_MANIFEST_DIR"));
        let mut words = vec!["up", &examples];
        words.extend(flags);
        lab.good(&words);
        Some(lab)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(SLUICE);
        command.arg("lab").args(words).env("SLUICE_LAB", &self.name);
        if let Some(labs) = &self.labs {
            command.env("SLUICE_LABS", labs);
        }
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a command printed that must succeed.
    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}{}{}",
            text(&output.stdout),
            text(&output.stderr),
            self.log()
        );
        text(&output.stdout)
    }

    /// What a command says that must fail.
    #[track_caller]
    fn bad(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            !output.status.success(),
            "{words:?}: {}",
            text(&output.stdout)
        );
        text(&output.stderr)
    }

    fn apply(&self, manifests: &str) -> Output {
        let file = self.files.path().join("some.yaml");
        fs::write(&file, manifests).unwrap();
        self.run(&["apply", "-f", file.to_str().unwrap()])
    }

    fn json(&self, words: &[&str]) -> Value {
        let mut all = vec!["get"];
        all.extend(words);
        all.extend(["-o", "json"]);
        serde_json::from_str(&self.good(&all)).unwrap()
    }

    fn items(&self, words: &[&str]) -> Vec<Value> {
        self.json(words)["items"].as_array().cloned().unwrap()
    }

    /// Waits until `count` pods share the requests, and none fails.
    #[track_caller]
    fn spread(&self, from: &str, to: &str, count: usize) {
        self.until(&format!("{count} pods answer {from} at {to}"), || {
            let output = self.run(&["probe", from, to, "-n", "60", "-o", "json"]);
            let answers: Value = serde_json::from_slice(&output.stdout).ok()?;
            let all = output.status.success();
            (all && answers["answered"].as_object()?.len() == count).then_some(())
        });
    }

    /// Answers by pod of so many requests, none of which may fail.
    #[track_caller]
    fn probe(&self, from: &str, to: &str) -> Value {
        serde_json::from_str(&self.good(&["probe", from, to, "-n", "60", "-o", "json"])).unwrap()
    }

    #[track_caller]
    fn until<T>(&self, what: &str, mut holds: impl FnMut() -> Option<T>) -> T {
        eventually(WITHIN, &mut holds).unwrap_or_else(|| {
            panic!(
                "{what}\n{}\n{}\n{}",
                text(&self.run(&["get", "pods", "-A", "-o", "wide"]).stdout),
                text(&self.run(&["get", "events", "-A"]).stdout),
                self.log()
            )
        })
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    fn dir(&self) -> PathBuf {
        let labs = self.labs.clone();
        labs.unwrap_or_else(|| LABS.into()).join(&self.name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.run(&["down"]);
    }
}

/// Ends the labs of tests that were killed.
fn sweep() {
    for entry in fs::read_dir(LABS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix('t').and_then(|it| it.split('-').next());
        let pid = pid.and_then(|it| it.parse::<u32>().ok());
        if pid.is_some_and(|it| !PathBuf::from(format!("/proc/{it}")).exists()) {
            let down = ["lab", "down", "--name", &name];
            drop(Command::new(SLUICE).args(down).output());
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
