//! Chains in legacy tables, which only the programs of iptables can change: the kernel reads and writes
//! whole tables, as blobs of private structures of all extensions.

use std::fs;
use std::io;
use std::time::Duration;

use sluice_model::IpFamily;
use sluice_xtables::programs::{FindError, Lock, Programs, RestoreError, SaveError, Variant};
use sluice_xtables::rule::Table;

use super::save::{self, Saved};
use super::teardown::{self, Cleared};
use super::{TABLES, goes};
use crate::{LeftoverError, Removal, Request};

/// How many seconds a program waits for the lock of the legacy tables.
const LOCK_SECONDS: u32 = 30;

/// Timeout of a program: it reads and writes legacy tables of 10,000 Services in seconds.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How often a table is read while another program changes it.
const ATTEMPTS: usize = 3;

/// Removes kube-proxy's chains from legacy tables, if there are tables and programs.
pub(super) fn remove(request: &Request<'_>, removal: &mut Removal) {
    let mut tables = Vec::new();
    for &family in request.families {
        let present = removal.take(present(family));
        tables.extend(present.into_iter().map(|it| (family, it)));
    }
    if tables.is_empty() {
        return;
    }
    let programs = match programs() {
        Ok(it) => it,
        Err(error @ (FindError::Missing { .. } | FindError::TooOld { .. })) => {
            return removal.notes.push(stay(&tables, &error));
        }
        Err(error) => return removal.errors.push(LeftoverError::Find(error)),
    };
    for (family, table) in tables {
        let result = clear(&programs, family, table, request);
        if let Some(cleared) = removal.take(result) {
            cleared.report(&name(family, table), removal);
        }
    }
}

/// Whether there are legacy tables, and programs to change them.
pub(super) fn is_in_use() -> bool {
    let mut families = IpFamily::ALL.into_iter();
    families.any(|it| present(it).is_ok_and(|it| !it.is_empty())) && programs().is_ok()
}

/// The legacy tables with a chain whose name is meant; none also when that is not known.
pub(super) fn tables_with(tables: &[Table], is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let present = IpFamily::ALL.into_iter().flat_map(|family| {
        let present = present(family).unwrap_or_default().into_iter();
        present.map(move |table| (family, table))
    });
    let mut present = present.filter(|(_, it)| tables.contains(it)).peekable();
    let Some(programs) = present.peek().and_then(|_| programs().ok()) else {
        return Vec::new();
    };
    let found = present.filter(|(family, table)| {
        let saved = read(&programs, *family, *table, &is_meant);
        saved.is_ok_and(|it| !it.chains.is_empty())
    });
    found.map(|(family, table)| name(family, table)).collect()
}

/// The tables of a family that exist and may have chains of kube-proxy. A program that lists another table
/// creates it.
///
/// # Errors
///
/// [`LeftoverError::Hidden`] without root's privileges, [`LeftoverError::Read`].
pub fn present(family: IpFamily) -> Result<Vec<Table>, LeftoverError> {
    let path = match family {
        IpFamily::V4 => "/proc/thread-self/net/ip_tables_names",
        IpFamily::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    let names = match fs::read_to_string(path) {
        Ok(names) => names,
        // This kernel has no legacy iptables.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(LeftoverError::Hidden { path });
        }
        Err(source) => return Err(LeftoverError::Read { path, source }),
    };
    let is_present = |table: &Table| names.lines().any(|it| it == table.as_str());
    Ok(TABLES.into_iter().filter(is_present).collect())
}

fn name(family: IpFamily, table: Table) -> String {
    format!("legacy {} {table}", family.nft_name())
}

/// The programs that work on legacy tables.
fn programs() -> Result<Programs, FindError> {
    let lock = Lock {
        seconds: LOCK_SECONDS,
        ..Lock::default()
    };
    let programs = Programs::find(Variant::Legacy)?;
    Ok(programs.with_lock(lock).with_timeout(TIMEOUT))
}

fn stay(tables: &[(IpFamily, Table)], error: &FindError) -> String {
    let tables = tables.iter().map(|(family, table)| name(*family, *table));
    let tables = tables.collect::<Vec<_>>().join(", ");
    format!(
        "tables {tables} exist and cannot be read: {error}; rules of kube-proxy there stay; remove \
         them on the host with `kube-proxy --cleanup`, or `sluice cleanup --kube-proxy` where these \
         programs are installed"
    )
}

/// Removes kube-proxy's chains from one table in one step; `None` when there are none.
fn clear(
    programs: &Programs,
    family: IpFamily,
    table: Table,
    request: &Request<'_>,
) -> Result<Option<Cleared<String>>, LeftoverError> {
    let goes = |it: &str| goes(request, Variant::Legacy, table, it);
    let mut attempt = 1;
    loop {
        let saved = read(programs, family, table, goes).map_err(LeftoverError::Save)?;
        let Some(done) = teardown::plan(&saved.chains, saved.links, goes) else {
            return Ok(None);
        };
        match programs.restore(family, &save::teardown(table, &done)) {
            Ok(()) => {
                return Ok(Some(Cleared {
                    done,
                    forward_drops: saved.forward_drops,
                }));
            }
            // Another program changed the table; nothing was written.
            Err(RestoreError::Refused { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(LeftoverError::Restore(error)),
        }
    }
}

/// The chains of a table that are removed, and the rules that jump to them.
fn read(
    programs: &Programs,
    family: IpFamily,
    table: Table,
    goes: impl Fn(&str) -> bool,
) -> Result<Saved, SaveError> {
    let mut saved = Saved::default();
    programs.read_table(family, table, |line| saved.add(line, &goes))?;
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::path::Path;

    use sluice_lab::write_program;

    use super::*;
    use crate::Purpose;

    const TABLE: &str = "*filter\n:FORWARD ACCEPT [0:0]\n:KUBE-FORWARD - [0:0]\n\
                         -A FORWARD -j KUBE-FORWARD\nCOMMIT";

    /// Programs of which one prints a table and the other does this.
    fn programs(folder: &Path, save: &str, restore: &str) -> Programs {
        for family in ["iptables", "ip6tables"] {
            for (verb, does) in [("save", save), ("restore", restore)] {
                let path = folder.join(format!("{family}-legacy-{verb}"));
                let version = "test \"$1\" = --version && exec echo 'iptables v1.8.9 (legacy)'";
                write_program(&path, &format!("{version}\n{does}")).unwrap();
            }
        }
        let lock = Lock {
            file: folder.join("lock"),
            seconds: 0,
        };
        let programs = Programs::find_in(Variant::Legacy, folder.as_os_str());
        programs.unwrap().with_lock(lock)
    }

    fn problem(programs: &Programs) -> String {
        let request = Request {
            purpose: Purpose::CleanupKubeProxy,
            families: &IpFamily::ALL,
            keep: &|_| false,
        };
        let error = clear(programs, IpFamily::V4, Table::Filter, &request).unwrap_err();
        error.source().expect("the program's").to_string()
    }

    #[test]
    fn who_hangs_is_killed_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let save = format!("echo '{TABLE}'");
        for (save, restore, name) in [
            ("exec sleep 1000", "", "iptables-legacy-save -t filter"),
            (&save, "exec sleep 1000", "iptables-legacy-restore"),
        ] {
            let programs = programs(folder.path(), save, restore);
            let programs = programs.with_timeout(Duration::from_secs(2));
            let problem = problem(&programs);
            assert!(problem.contains(name), "{problem}");
            assert!(problem.contains("killed"), "{problem}");
        }
    }

    #[test]
    fn a_table_that_others_change_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let reads = folder.path().join("reads");
        let save = format!("echo >> {}\necho '{TABLE}'", reads.display());
        let refusal = "cat > /dev/null; echo 'iptables-restore: line 3 failed' >&2; exit 1";
        let programs = programs(folder.path(), &save, refusal);
        let problem = problem(&programs);
        assert!(problem.contains("line 3"), "{problem}");
        assert_eq!(fs::read(&reads).unwrap().len(), ATTEMPTS);
    }
}
