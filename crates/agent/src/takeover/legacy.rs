//! What kube-proxy left in legacy tables, which only the programs of iptables can change: their
//! interface takes and gives whole tables as blobs of all extensions' private structures.

mod save;

use std::fmt::Display;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread;

use sluice_core::model::IpFamily;

use super::teardown::{self, Cleared};
use super::{Chains, Ours, Removal, TakeoverError};
use save::Saved;

/// Tables of iptables in which kube-proxy has chains.
const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// Seconds that a program waits for the lock of the legacy tables.
const LOCK_SECONDS: &str = "30";

/// How often a table is read again because somebody changed it meanwhile.
const ATTEMPTS: usize = 3;

/// One family's tables and programs.
struct Family {
    /// Whose.
    of: IpFamily,
    /// As in `ip nat`.
    word: &'static str,
    /// Lists the tables that exist. To ask for others would make them.
    tables: &'static str,
    /// Programs that may be iptables for legacy tables, without `-save` and `-restore`.
    programs: [&'static str; 2],
}

const FAMILIES: [Family; 2] = [
    Family {
        of: IpFamily::V4,
        word: "legacy ip",
        tables: "/proc/thread-self/net/ip_tables_names",
        programs: ["iptables-legacy", "iptables"],
    },
    Family {
        of: IpFamily::V6,
        word: "legacy ip6",
        tables: "/proc/thread-self/net/ip6_tables_names",
        programs: ["ip6tables-legacy", "ip6tables"],
    },
];

/// Removes kube-proxy's chains from legacy tables, as far as there are tables and programs.
pub(super) fn remove_chains(ours: Ours, families: &[IpFamily], removal: &mut Removal) {
    for family in FAMILIES.iter().filter(|it| families.contains(&it.of)) {
        let result = family.present();
        let tables = removal.keep(result);
        if tables.is_empty() {
            continue;
        }
        let Some(program) = family.program() else {
            removal.notes.push(family.missing(&tables));
            continue;
        };
        for table in tables {
            let result = clear(program, table, ours);
            if let Some(cleared) = removal.keep(result) {
                cleared.report(&format!("{} {table}", family.word), removal);
            }
        }
    }
}

/// Whether there are legacy tables, and programs to change them.
pub(super) fn is_in_use() -> bool {
    let in_use =
        |it: &Family| it.present().is_ok_and(|it| !it.is_empty()) && it.program().is_some();
    FAMILIES.iter().any(in_use)
}

/// Whether a legacy table has a chain whose name is one of these; `false` when nobody can say.
pub(super) fn has_chain(table: &str, is_meant: fn(&str) -> bool) -> bool {
    FAMILIES.iter().any(|family| {
        let is_there = family.present().is_ok_and(|it| it.contains(&table));
        let program = is_there.then(|| family.program()).flatten();
        let saved = program.and_then(|it| read(it, table, is_meant).ok());
        saved.is_some_and(|it| !it.chains.is_empty())
    })
}

impl Family {
    /// The tables that exist and may have chains of kube-proxy.
    fn present(&self) -> Result<Vec<&'static str>, TakeoverError> {
        let path = self.tables;
        let names = match fs::read_to_string(path) {
            Ok(names) => names,
            // This kernel has no legacy iptables.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(TakeoverError::Hidden { path });
            }
            Err(source) => return Err(TakeoverError::Read { path, source }),
        };
        let is_present = |table: &&str| names.lines().any(|it| it == *table);
        Ok(TABLES.into_iter().filter(is_present).collect())
    }

    /// The programs that work on legacy tables; `None` when there are none here.
    fn program(&self) -> Option<&'static str> {
        self.programs.into_iter().find(|program| {
            let version = Command::new(format!("{program}-save"))
                .arg("--version")
                .output();
            version.is_ok_and(|it| {
                let said = String::from_utf8_lossy(&it.stdout).into_owned();
                // Before 1.8 there was nothing else, and no word for it.
                it.status.success() && !said.contains("nf_tables")
            })
        })
    }

    fn missing(&self, tables: &[&str]) -> String {
        let (word, tables) = (self.word, tables.join(", "));
        let [program, _] = self.programs;
        format!(
            "tables {tables} of {word} exist, and no {program}-save to look into them: rules of \
             kube-proxy there stay; remove them on the host with `kube-proxy --cleanup`, or \
             `sluice cleanup --kube-proxy` where {program} is installed"
        )
    }
}

/// Removes kube-proxy's chains from one table in one step; `None` when there are none.
fn clear(program: &str, table: &str, ours: Ours) -> Result<Option<Cleared<String>>, TakeoverError> {
    let goes = |it: &str| ours.gives_up(Chains::Legacy, table, it);
    let mut attempt = 1;
    loop {
        let Saved {
            chains,
            links,
            forward_drops,
        } = read(program, table, goes)?;
        let Some(done) = teardown::plan(&chains, links, goes) else {
            return Ok(None);
        };
        match restore(program, &save::teardown_text(table, &done)) {
            Ok(()) => {
                return Ok(Some(Cleared {
                    done,
                    forward_drops,
                }));
            }
            Err(error) if attempt == ATTEMPTS => return Err(error),
            // Somebody changed the table meanwhile; nothing was written.
            Err(_) => attempt += 1,
        }
    }
}

/// What a table has of the chains that go.
fn read(program: &str, table: &str, goes: impl Fn(&str) -> bool) -> Result<Saved, TakeoverError> {
    let program = format!("{program}-save");
    let child = Command::new(&program)
        .args(["-t", table])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let heard = child.and_then(|mut child| {
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        thread::scope(|scope| {
            let stderr = scope.spawn(|| said(stderr));
            let saved = stdout.map(|it| Saved::read(BufReader::new(it), goes));
            let status = child.wait()?;
            let saved = saved.transpose()?.unwrap_or_default();
            Ok((saved, status, stderr.join().unwrap_or_default()))
        })
    });
    let (saved, status, stderr) = heard.map_err(|error| failed(&program, &error))?;
    finished(&program, status, &stderr)?;
    Ok(saved)
}

/// All of what a program complains about.
fn said(stderr: Option<impl Read>) -> Vec<u8> {
    let mut text = Vec::new();
    // Half a complaint is better than none.
    let _ = stderr.map(|mut it| it.read_to_end(&mut text));
    text
}

fn restore(program: &str, text: &str) -> Result<(), TakeoverError> {
    let program = format!("{program}-restore");
    let arguments = ["--noflush", "--wait", LOCK_SECONDS];
    let child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let fed = child.and_then(|mut child| {
        let written = child
            .stdin
            .take()
            .map(|mut it| it.write_all(text.as_bytes()));
        let output = child.wait_with_output()?;
        match written {
            // It has said why on stderr.
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Some(result) => result?,
            None => {}
        }
        Ok(output)
    });
    let Output { status, stderr, .. } = fed.map_err(|error| failed(&program, &error))?;
    finished(&program, status, &stderr)
}

/// Whether a program succeeded, which said this to stderr.
fn finished(program: &str, status: ExitStatus, stderr: &[u8]) -> Result<(), TakeoverError> {
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(stderr);
    let first = said.lines().find(|it| !it.trim().is_empty());
    Err(match first {
        Some(line) => failed(program, &line.escape_debug()),
        None => failed(program, &status),
    })
}

fn failed(program: &str, problem: &dyn Display) -> TakeoverError {
    let (program, problem) = (program.to_owned(), problem.to_string());
    TakeoverError::Program { program, problem }
}
