//! Finds the programs of a variant.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use sluice_model::IpFamily;
use sluice_netlink::is_secure_execution;

use super::run::Run;
use super::{ANSWER, FindError, Lock, Pair, Programs, RunError, TIMEOUT, Variant};

/// Folders of system programs that PATH may lack.
const USUAL: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
];

/// The version of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 1.8.9 as `[1, 8, 9]`.
    parts: [u32; 3],
}

impl Version {
    /// The first whose `iptables-restore` waits for the lock (`-w`) and which knows
    /// `MASQUERADE --random-fully`: so both can always be used.
    pub const OLDEST: Self = Self { parts: [1, 6, 2] };

    /// Reads `iptables-restore v1.8.9 (nf_tables)`.
    fn parse(said: &str) -> Option<Self> {
        let (_, from) = said.split_once(" v")?;
        let word = from.split(|it: char| !it.is_ascii_digit() && it != '.');
        let mut numbers = word.into_iter().next()?.split('.').map(str::parse);
        let major = numbers.next()?.ok()?;
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
        Some(Self {
            parts: [major, next(), next()],
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.parts;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Limit of the stack of a program, in bytes. `iptables-nft-save` 1.8.9 goes through its chains by
/// recursion, and the 110,000 of 10,000 Services with 10 endpoints overflow the usual 8 MiB.
const STACK: rlim_t = 1 << 29;

impl Programs {
    /// Those of this variant in these folders, which are listed as in PATH. Where those of one family do not run, they are
    /// known by their names, and fail when they are used. Raises the stack limit of this process, which the programs inherit.
    ///
    /// # Errors
    ///
    /// As [`Programs::find`].
    pub fn find_in(variant: Variant, path: &OsStr) -> Result<Self, FindError> {
        allow_stack();
        let pair = |family| pair(variant, family, path);
        let (ipv4, ipv6) = beside(|| pair(IpFamily::V4), || pair(IpFamily::V6));
        // A family whose programs do not run does not stop the other.
        let unrun = |family, error| match named(variant, family, path) {
            Some(named) if matches!(error, FindError::Run(_)) => Ok(named),
            _ => Err(error),
        };
        let (version, ipv4, ipv6) = match (ipv4, ipv6) {
            (Ok((ipv4, version)), Ok((ipv6, _))) => (version, ipv4, ipv6),
            (Ok((ipv4, version)), Err(error)) => (version, ipv4, unrun(IpFamily::V6, error)?),
            (Err(error), Ok((ipv6, version))) => (version, unrun(IpFamily::V4, error)?, ipv6),
            (Err(error), Err(_)) => return Err(error),
        };
        Ok(Self {
            variant,
            version,
            ipv4,
            ipv6,
            lock: Lock::default(),
            timeout: TIMEOUT,
        })
    }

    /// Whether a family's programs run: those that said their version when they were found are not asked again.
    ///
    /// # Errors
    ///
    /// A program does not run, or hangs.
    pub fn found(&self, family: IpFamily) -> Result<(), RunError> {
        if self.pair(family).answered {
            return Ok(());
        }
        self.answer(family)
    }

    /// Asks a family's programs for their version, which takes milliseconds.
    ///
    /// # Errors
    ///
    /// A program does not run, or hangs.
    pub fn answer(&self, family: IpFamily) -> Result<(), RunError> {
        let pair = self.pair(family);
        let (restore, save) = beside(|| say(&pair.restore), || say(&pair.save));
        restore.and(save).map(drop)
    }
}

/// Two answers, which are waited for at the same time: each may take its whole timeout.
pub(super) fn beside<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let b = scope.spawn(b);
        (a(), b.join().expect("it does not panic"))
    })
}

/// What a program says about its version.
fn say(program: &Path) -> Result<String, RunError> {
    let run = Run {
        program,
        arguments: &["--version"],
        lock: &Lock {
            seconds: 0,
            ..Lock::default()
        },
        timeout: ANSWER,
    };
    run.output(io::read_to_string)
}

/// Raises the limit as far as we may.
fn allow_stack() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_STACK)
        && soft < STACK.min(hard)
    {
        let _ = setrlimit(Resource::RLIMIT_STACK, STACK.min(hard), hard);
    }
}

fn pair(variant: Variant, family: IpFamily, path: &OsStr) -> Result<(Pair, Version), FindError> {
    let (restore, version) = program(variant, family, "restore", path)?;
    if version < Version::OLDEST {
        let program = restore;
        return Err(FindError::TooOld { program, version });
    }
    let (save, _) = program(variant, family, "save", path)?;
    let answered = true;
    Ok((
        Pair {
            restore,
            save,
            answered,
        },
        version,
    ))
}

/// The program of the variant's own name, else that of the plain name if it is of this variant.
fn program(
    variant: Variant,
    family: IpFamily,
    verb: &str,
    path: &OsStr,
) -> Result<(PathBuf, Version), FindError> {
    let names = names(variant, family, verb);
    for program in names.iter().filter_map(|it| first(it, path)) {
        let said = say(&program)?;
        let Some(version) = Version::parse(&said) else {
            let problem = format!("no version in {:?}", said.trim());
            return Err(RunError::Failed { program, problem }.into());
        };
        if variant == variant_of(&said) {
            return Ok((program, version));
        }
    }
    let [program, _] = names;
    Err(FindError::Missing { variant, program })
}

/// The programs that bear the names of a variant, whatever they say.
fn named(variant: Variant, family: IpFamily, path: &OsStr) -> Option<Pair> {
    let program = |verb| {
        let names = names(variant, family, verb);
        names.iter().find_map(|it| first(it, path))
    };
    Some(Pair {
        restore: program("restore")?,
        save: program("save")?,
        answered: false,
    })
}

/// The variant's own name of a program, and the plain one.
fn names(variant: Variant, family: IpFamily, verb: &str) -> [String; 2] {
    let plain = match family {
        IpFamily::V4 => "iptables",
        IpFamily::V6 => "ip6tables",
    };
    [
        format!("{plain}-{variant}-{verb}"),
        format!("{plain}-{verb}"),
    ]
}

fn first(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|it| it.join(name))
        .find(|it| it.is_file())
}

fn variant_of(said: &str) -> Variant {
    // Before 1.8 every program is of the legacy variant, and does not say so.
    if said.contains("nf_tables") {
        Variant::Nft
    } else {
        Variant::Legacy
    }
}

/// A variable of our environment; `None` where the user who started us has fewer privileges than we:
/// the programs that we run would pass ours to code of that user.
pub(super) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|_| !is_secure_execution())
}

/// PATH, and the folders of system programs; these alone with privileges from the program's file.
pub fn search_path() -> OsString {
    let given = variable("PATH").unwrap_or_default();
    let given = env::split_paths(&given).filter(|it| it.is_absolute());
    let usual = USUAL.iter().map(PathBuf::from);
    // Absolute paths that came out of a PATH have no colon.
    env::join_paths(given.chain(usual)).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use sluice_lab::write_program;

    use super::*;

    #[test]
    fn versions_are_read() {
        for (said, version) in [
            ("iptables-restore v1.8.9 (nf_tables)", Some([1, 8, 9])),
            ("ip6tables-save v1.8.11 (legacy)\n", Some([1, 8, 11])),
            ("iptables v1.6.1", Some([1, 6, 1])),
            ("iptables v1.4", Some([1, 4, 0])),
            ("iptables-restore: unknown option", None),
            ("x vault", None),
            ("", None),
        ] {
            let parts = Version::parse(said).map(|it| it.parts);
            assert_eq!(parts, version, "{said}");
        }
        assert!(Version::parse("iptables v1.6.1") < Some(Version::OLDEST));
        assert!(Version::parse("iptables v1.10.0") > Some(Version::OLDEST));
    }

    #[test]
    fn variants_are_told_apart() {
        assert_eq!(variant_of("iptables-save v1.8.9 (nf_tables)"), Variant::Nft);
        assert_eq!(variant_of("iptables-save v1.8.9 (legacy)"), Variant::Legacy);
        assert_eq!(variant_of("iptables-save v1.6.2"), Variant::Legacy);
    }

    /// A folder of programs that only say their version.
    pub(in crate::programs) fn folder(programs: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, version) in programs {
            let path = folder.path().join(name);
            write_program(&path, &format!("echo '{name} {version}'")).unwrap();
        }
        folder
    }

    pub(in crate::programs) fn named(prefix: &str) -> [String; 4] {
        ["iptables", "ip6tables"]
            .map(|it| {
                [
                    format!("{it}{prefix}-restore"),
                    format!("{it}{prefix}-save"),
                ]
            })
            .concat()
            .try_into()
            .unwrap()
    }

    #[test]
    fn programs_that_were_found_just_now_are_not_asked_again() {
        let names = named("-nft");
        let all = names
            .each_ref()
            .map(|it| (it.as_str(), "v1.8.9 (nf_tables)"));
        let folder = folder(&all);
        let programs = Programs::find_in(Variant::Nft, folder.path().as_os_str()).unwrap();
        fs::remove_file(folder.path().join(&names[0])).unwrap();
        programs.found(IpFamily::V4).unwrap();
        programs.answer(IpFamily::V4).unwrap_err();
    }

    #[test]
    fn programs_may_use_much_stack() {
        let names = named("");
        let folder = folder(&names.each_ref().map(|it| {
            let name: &str = it;
            (name, "v1.8.9 (nf_tables)'; ulimit -s; : '")
        }));
        let programs = Programs::find_in(Variant::Nft, folder.path().as_os_str()).unwrap();
        let text = programs.text(IpFamily::V4, &["-c"]).unwrap().0;
        let (_, most) = getrlimit(Resource::RLIMIT_STACK).unwrap();
        let kibibytes = (STACK.min(most) / 1024).to_string();
        assert!(text.lines().any(|it| it == kibibytes), "{text}");
    }

    #[test]
    fn programs_are_known_by_what_they_say() {
        let (own, plain) = (named("-legacy"), named(""));
        let all = |names: &[String; 4], version: &str| {
            let all: Vec<(&str, &str)> = names.iter().map(|it| (it.as_str(), version)).collect();
            folder(&all)
        };
        let nft = all(&plain, "v1.8.9 (nf_tables)");
        let legacy = all(&own, "v1.8.9 (legacy)");
        let ancient = all(&plain, "v1.6.2");
        let too_old = all(&plain, "v1.4.21");
        let silent = all(&plain, "unknown");
        let find_in = |variant: Variant, folders: &[&tempfile::TempDir]| {
            let path = env::join_paths(folders.iter().map(|it| it.path())).unwrap();
            Programs::find_in(variant, &path)
        };
        let found = |variant: Variant, folders: &[&tempfile::TempDir]| {
            find_in(variant, folders).unwrap().ipv6.save
        };
        let save = |folder: &tempfile::TempDir, name: &str| folder.path().join(name);
        let (own, plain) = ("ip6tables-legacy-save", "ip6tables-save");
        assert_eq!(found(Variant::Nft, &[&nft]), save(&nft, plain));
        assert_eq!(found(Variant::Legacy, &[&nft, &legacy]), save(&legacy, own));
        assert_eq!(found(Variant::Legacy, &[&ancient]), save(&ancient, plain));
        let error = |variant, folders: &[&tempfile::TempDir]| {
            find_in(variant, folders).unwrap_err().to_string()
        };
        assert!(
            error(Variant::Legacy, &[&nft])
                .starts_with("no iptables-legacy-restore for the legacy variant of iptables")
        );
        let old = error(Variant::Legacy, &[&too_old]);
        assert!(
            old.ends_with("is version 1.4.21, at least 1.6.2 is needed"),
            "{old}"
        );
        let silent = error(Variant::Nft, &[&silent]);
        assert!(silent.contains("no version in"), "{silent}");
        assert!(error(Variant::Nft, &[]).contains("package iptables"));
    }
}
