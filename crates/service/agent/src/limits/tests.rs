use std::collections::BTreeMap;

use sluice_lab::{Netns, require_netns};
use sluice_node::sysctl::State;

use super::*;

/// The settings of kube-proxy's defaults; each test case changes the field that it tests.
const DEFAULTS: ConntrackLimits = ConntrackLimits {
    max_per_core: 32 << 10,
    min: 128 << 10,
    tcp_established: Duration::from_hours(24),
    tcp_close_wait: Duration::from_hours(1),
    tcp_be_liberal: false,
    udp: Duration::ZERO,
    udp_stream: Duration::ZERO,
};

const NOTHING: ConntrackLimits = ConntrackLimits {
    max_per_core: 0,
    min: 0,
    tcp_established: Duration::ZERO,
    tcp_close_wait: Duration::ZERO,
    tcp_be_liberal: false,
    udp: Duration::ZERO,
    udp_stream: Duration::ZERO,
};

/// Writes as `name=value`, for a machine whose files hold this.
fn planned(settings: &ConntrackLimits, cores: usize, current: &[(&str, u64)]) -> String {
    let current: BTreeMap<&str, u64> = current.iter().copied().collect();
    let writes = plan(settings, cores, |path| current.get(name(path)).copied());
    let shown = writes
        .iter()
        .map(|it| format!("{}={}", name(it.path), it.value));
    shown.collect::<Vec<_>>().join(" ")
}

fn name(path: &str) -> &str {
    let name = path.rsplit('/').next().expect("a path");
    name.strip_prefix("nf_conntrack_").unwrap_or(name)
}

#[test]
fn the_table_is_scaled_capped_and_only_enlarged() {
    const FULL: usize = 512;
    // Entries per core, minimum, cores, present values, values that are written.
    let cases = [
        (0, 1000, 8, [0, 0], ""),
        (12, 0, 8, [0, 0], "max=96 hashsize=24"),
        (12, 1000, 8, [0, 0], "max=1000 hashsize=250"),
        (32768, 131_072, FULL, [0, 0], "max=1048576 hashsize=262144"),
        // The cap applies to the scaled number only: a larger minimum is used as it is.
        (1, 4_000_000, 8, [0, 0], "max=4000000 hashsize=1000000"),
        (
            u32::MAX,
            0,
            usize::MAX,
            [0, 0],
            "max=1048576 hashsize=262144",
        ),
        (12, 0, 8, [96, 24], ""),
        (12, 0, 8, [192, 48], ""),
        (12, 0, 8, [48, 24], "max=96"),
        (12, 0, 8, [96, 12], "hashsize=24"),
    ];
    for (max_per_core, min, cores, [max, hashsize], expected) in cases {
        let settings = ConntrackLimits {
            max_per_core,
            min,
            ..NOTHING
        };
        let current = [("max", max), ("hashsize", hashsize)];
        let found = planned(&settings, cores, &current);
        assert_eq!(found, expected, "{settings:?} {cores} {current:?}");
    }
    let unreadable = planned(
        &ConntrackLimits {
            max_per_core: 12,
            ..NOTHING
        },
        8,
        &[],
    );
    assert_eq!(unreadable, "max=96 hashsize=24");
}

#[test]
fn timeouts_are_exact_and_zero_leaves_them_alone() {
    let second = Duration::from_secs(1);
    let all = ConntrackLimits {
        tcp_established: second * 5,
        tcp_close_wait: second * 6,
        tcp_be_liberal: true,
        udp: second * 7 + second / 2,
        udp_stream: second / 10,
        ..NOTHING
    };
    let everything = "tcp_timeout_established=5 tcp_timeout_close_wait=6 tcp_be_liberal=1 \
        udp_timeout=7 udp_timeout_stream=1";
    assert_eq!(planned(&all, 1, &[]), everything);
    let there = [
        ("tcp_timeout_established", 9),
        ("tcp_be_liberal", 1),
        ("udp_timeout", 7),
    ];
    assert_eq!(
        planned(&all, 1, &there),
        "tcp_timeout_established=5 tcp_timeout_close_wait=6 udp_timeout_stream=1"
    );
    assert_eq!(planned(&NOTHING, 1, &[]), "");
}

#[test]
fn kube_proxys_defaults() {
    let defaults = DEFAULTS;
    assert_eq!(
        planned(&defaults, 2, &[]),
        "max=131072 hashsize=32768 tcp_timeout_established=86400 tcp_timeout_close_wait=3600"
    );
}

#[test]
fn cores_are_counted_in_lists() {
    let cases = [
        ("0", Some(1)),
        ("0-3", Some(4)),
        ("0-3,8,10-11", Some(7)),
        ("", None),
        ("3-1", None),
        ("0-", None),
        ("x", None),
        ("0-18446744073709551615", None),
    ];
    for (list, expected) in cases {
        assert_eq!(count(list), expected, "{list}");
    }
    assert!(cores() > 0);
}

#[test]
fn a_namespace_has_its_own_timeouts_and_not_its_own_table() {
    require_netns!();
    let netns = Netns::new("sysctl").expect("permitted");
    netns.run(|| {
        let settings = ConntrackLimits {
            udp: Duration::from_secs(47),
            tcp_be_liberal: true,
            ..NOTHING
        };
        let folder = tempfile::tempdir().expect("a temporary directory");
        let memory = Memory::beside(&folder.path().join("sluice.sock"));
        let old = (read(UDP), read(BE_LIBERAL));
        apply(&settings, &memory).expect("ours to write");
        assert_eq!((read(UDP), read(BE_LIBERAL)), (Some(47), Some(1)));

        let large = ConntrackLimits {
            max_per_core: 1,
            min: u32::MAX,
            udp: Duration::from_secs(48),
            ..NOTHING
        };
        let before = (read(MAX), read(HASHSIZE));
        let error = apply(&large, &memory).expect_err("the machine's alone");
        let paths: Vec<_> = error.0.iter().map(|it| it.write.path).collect();
        assert_eq!(paths, [MAX, HASHSIZE], "{error}");
        assert_eq!((read(MAX), read(HASHSIZE)), before);
        assert_eq!(read(UDP), Some(48), "the rest is tried all the same");

        let changed = memory.changed().expect("our own file").expect("written");
        let paths: Vec<_> = changed.iter().map(|it| &*it.path).collect();
        // Also the refused values: the file is written before the sysctl.
        assert_eq!(paths, [BE_LIBERAL, UDP, MAX, HASHSIZE]);
        for sysctl in &changed {
            match &*sysctl.path {
                MAX | HASHSIZE => assert!(matches!(sysctl.state(), State::Old), "{sysctl:?}"),
                _ => {
                    assert!(matches!(sysctl.state(), State::Ours), "{sysctl:?}");
                    sysctl.restore().expect("ours to write");
                    assert!(matches!(sysctl.state(), State::Old), "{sysctl:?}");
                }
            }
        }
        assert_eq!((read(UDP), read(BE_LIBERAL)), old);
        fs::write(UDP, "49").expect("ours to write");
        let udp = &changed[1];
        assert!(matches!(udp.state(), State::Foreign(49)), "{udp:?}");
    });
}
