//! A network namespace with pins of its own.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use aya::programs::SchedClassifier;
use aya::programs::tc::TcAttachType;
use sluice_bpf::Pins;
use sluice_ebpf::{BUILT, Patterns, Programs, Setup, Sizes};
use sluice_lab::Netns;

/// Timeout of what happens in the background.
pub(crate) const SOON: Duration = Duration::from_secs(10);

const INGRESS: (TcAttachType, &str) = (TcAttachType::Ingress, "ingress");
const EGRESS: (TcAttachType, &str) = (TcAttachType::Egress, "egress");

/// Pins that are removed with the value, so that the kernel keeps nothing of a test.
pub(crate) struct Root(PathBuf);

impl Root {
    /// A folder that no other test has: the label is the test's name.
    ///
    /// Those of processes that were killed are removed first.
    pub(crate) fn new(label: &str) -> Self {
        for entry in fs::read_dir("/sys/fs/bpf").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let own = name
                .strip_prefix("sluice-test-")
                .and_then(|it| it.split_once('-'));
            if own.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
                fs::remove_dir_all(entry.path()).ok();
            }
        }
        Self(format!("/sys/fs/bpf/sluice-test-{}-{label}", process::id()).into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs a test in a new network namespace with the interface `east`, whose other end is `west`.
///
/// Without programs in this build it prints SKIP, and fails when `CI` is set.
pub(crate) fn run(label: &str, test: impl FnOnce(&Netns, &Root) + Send) {
    if !sluice_lab::netns_available() {
        return;
    }
    if !BUILT {
        assert!(env::var_os("CI").is_none(), "CI must build the programs");
        eprintln!("SKIP: this build has no programs");
        return;
    }
    let root = Root::new(label);
    let netns = Netns::new("bpf").unwrap();
    netns.run(|| {
        ip("link add east type veth peer name west");
        test(&netns, &root);
    });
}

/// Every interface except those whose name begins with `no`; those that begin with `pod` belong to pods.
pub(crate) fn setup(root: &Path) -> Setup {
    Setup {
        pins: root.to_owned(),
        interfaces: Patterns::new(["!no*"]),
        pods: Patterns::new(["pod*"]),
        sizes: Sizes {
            members: 8_192,
            flows: 1_024,
            affinity: 1_024,
            ..Sizes::default()
        },
    }
}

pub(crate) fn open(root: &Root) -> Programs {
    Programs::open(setup(root.path())).unwrap()
}

/// The programs loaded and attached.
pub(crate) fn attached(root: &Root) -> Programs {
    let mut programs = open(root);
    programs.attach().unwrap();
    programs
}

/// Where this thread's pins are.
pub(crate) fn pins(root: &Root) -> Pins {
    sluice_ebpf::pins(root.path()).unwrap()
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) {
    assert!(command("ip", words).is_some(), "ip {words}");
}

/// Ids of our programs at an interface: at ingress, at egress. [`None`] unless each has exactly one.
pub(crate) fn programs_at(interface: &str) -> Option<(u32, u32)> {
    let one = |(at, direction)| match &ids(interface, at, direction)[..] {
        [id] => Some(*id),
        _ => None,
    };
    Some((one(INGRESS)?, one(EGRESS)?))
}

/// How many of our programs an interface has.
pub(crate) fn count_at(interface: &str) -> usize {
    [INGRESS, EGRESS]
        .map(|(at, direction)| ids(interface, at, direction).len())
        .iter()
        .sum()
}

/// Programs of links, and on kernels without such links those of filters.
fn ids(interface: &str, at: TcAttachType, direction: &str) -> Vec<u32> {
    if let Ok((_, programs)) = SchedClassifier::query_tcx(interface, at)
        && !programs.is_empty()
    {
        let ours = programs.iter().filter(|it| is_ours(it.name_as_str()));
        return ours.map(aya::programs::ProgramInfo::id).collect();
    }
    let filters = command("tc", &format!("filter show dev {interface} {direction}"));
    let filters = filters.unwrap_or_default();
    let ours = filters.lines().filter(|it| is_ours(Some(it)));
    ours.filter_map(|it| it.split_once(" id ")?.1.split(' ').next()?.parse().ok())
        .collect()
}

fn is_ours(text: Option<&str>) -> bool {
    text.is_some_and(|it| it.contains("sluice_"))
}

/// What a program printed; [`None`] when it failed.
pub(crate) fn command(program: &str, words: &str) -> Option<String> {
    let output = Command::new(program).args(words.split(' ')).output();
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(printed)
}
