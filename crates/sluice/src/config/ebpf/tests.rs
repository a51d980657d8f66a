use std::path::Path;

use clap::Parser as _;

use super::*;
use crate::config::tests::{Typed, check, nets, settings, validate};

/// The options in the ebpf mode with these flags.
#[track_caller]
fn options(flags: &str) -> EbpfOptions {
    let flags = format!("--proxy-mode=ebpf {flags}");
    validate(&flags).expect("valid flags").node.ebpf
}

/// The command line is refused before it has a meaning, by a message that names the flag.
#[track_caller]
fn refused(flag: &str, value: &str) {
    let line = ["proxy", "--manifests=/m", &format!("{flag}={value}")];
    let error = Typed::try_parse_from(line).expect_err("a wrong value");
    let message = error.to_string();
    assert!(message.contains(flag), "{message}");
    assert_eq!(error.exit_code(), 2);
}

/// A wrong value is one problem, which names the flag.
#[track_caller]
fn wrong(flag: &str, value: &str, problem: &str) {
    let flags = format!("--proxy-mode=ebpf {flag}={value}");
    check(&flags, &[&format!("{flag}: \"{value}\" {problem}")]);
}

#[test]
fn without_flags_there_are_defaults() {
    let expected = EbpfOptions {
        interfaces: Vec::new(),
        sockets: Sockets::Tcp,
        ended_sockets: Sockets::Udp,
        cgroup: None,
        tunnel_port: 8476,
        flows: None,
        maglev_size: 16_381,
    };
    assert_eq!(options(""), expected);
    let settings = settings("--proxy-mode=ebpf");
    assert_eq!(settings.direct_return, DirectReturn::Off);
    assert_eq!(settings.not_direct, []);
    assert!(!settings.stale_tcp);
}

#[test]
fn interfaces_are_patterns() {
    let interfaces = |flags| options(flags).interfaces;
    assert_eq!(
        interfaces("--ebpf-interfaces=eth*,cali*,!docker*"),
        ["eth*", "cali*", "!docker*"]
    );
    // The longest name of an interface, and the same excluded.
    let longest = "a23456789012345";
    let both = format!("--ebpf-interfaces={longest},!{longest}");
    assert_eq!(interfaces(&both), [longest, &format!("!{longest}")]);
    let problem = "is no pattern of names such as eth* or !docker*";
    for value in ["", "!", "a/b", "eth0:1", "a2345678901234567"] {
        wrong("--ebpf-interfaces", value, problem);
    }
    let problems = ["\"\"", "\"a:b\""].map(|it| format!("--ebpf-interfaces: {it} {problem}"));
    let [empty, colon] = &problems;
    check("--ebpf-interfaces=eth0,,a:b", &[empty, colon]);
}

#[test]
fn sockets_are_all_or_tcp_or_none() {
    for (value, expected) in [
        ("all", Sockets::All),
        ("tcp", Sockets::Tcp),
        ("off", Sockets::Off),
    ] {
        let flag = format!("--ebpf-sockets={value}");
        assert_eq!(options(&flag).sockets, expected, "{value}");
    }
    for value in ["udp", "", "on"] {
        refused("--ebpf-sockets", value);
    }
}

#[test]
fn ended_sockets_are_all_or_udp_or_none() {
    for (value, expected) in [
        ("all", Sockets::All),
        ("udp", Sockets::Udp),
        ("off", Sockets::Off),
    ] {
        let flag = format!("--ebpf-end-sockets={value}");
        assert_eq!(options(&flag).ended_sockets, expected, "{value}");
    }
    for value in ["tcp", "", "on"] {
        refused("--ebpf-end-sockets", value);
    }
}

/// The plan has to name the endpoints whose TCP sockets end, and only where TCP sockets are led.
#[test]
fn connections_of_tcp_are_stale_where_they_are_ended() {
    for (flags, expected) in [
        ("--ebpf-end-sockets=all", true),
        ("--ebpf-end-sockets=all --ebpf-sockets=all", true),
        ("--ebpf-end-sockets=all --ebpf-sockets=off", false),
        ("--ebpf-end-sockets=udp --ebpf-sockets=all", false),
        ("--ebpf-end-sockets=off", false),
    ] {
        let settings = settings(&format!("--proxy-mode=ebpf {flags}"));
        assert_eq!(settings.stale_tcp, expected, "{flags}");
    }
    assert!(!settings("--proxy-mode=nftables --ebpf-end-sockets=all").stale_tcp);
}

/// Whether the folder is there is seen when programs are attached.
#[test]
fn a_cgroup_is_any_folder() {
    let options = options("--ebpf-cgroup=/sys/fs/cgroup/pods");
    assert_eq!(
        options.cgroup.as_deref(),
        Some(Path::new("/sys/fs/cgroup/pods"))
    );
    refused("--ebpf-cgroup", "");
}

#[test]
fn direct_server_return_is_of_all_or_of_annotated_services_or_of_none() {
    for (value, expected) in [
        ("off", DirectReturn::Off),
        ("annotated", DirectReturn::Annotated),
        ("all", DirectReturn::All),
    ] {
        let settings = settings(&format!("--proxy-mode=ebpf --ebpf-dsr={value}"));
        assert_eq!(settings.direct_return, expected, "{value}");
    }
    for value in ["snat", "", "true"] {
        refused("--ebpf-dsr", value);
    }
}

#[test]
fn clients_without_direct_server_return_are_prefixes() {
    let excluded = |flags: &str| settings(&format!("--proxy-mode=ebpf {flags}")).not_direct;
    assert_eq!(
        excluded("--ebpf-dsr-exclude=192.0.2.0/24,fd00::/64"),
        nets(&["192.0.2.0/24", "fd00::/64"])
    );
    assert_eq!(excluded("--ebpf-dsr-exclude="), []);
    let problem = "is no prefix such as 192.0.2.0/24";
    for value in ["192.0.2.1", "192.0.2.0/33", "here"] {
        wrong("--ebpf-dsr-exclude", value, problem);
    }
}

#[test]
fn the_tunnel_has_a_port() {
    for (value, expected) in [("1", 1), ("4789", 4789), ("65535", 65_535)] {
        let flag = format!("--ebpf-dsr-port={value}");
        assert_eq!(options(&flag).tunnel_port, expected);
    }
    for value in ["0", "65536", "-1", "vxlan", ""] {
        wrong("--ebpf-dsr-port", value, "is no port");
    }
}

#[test]
fn the_table_of_connections_has_a_size() {
    for (value, expected) in [("4096", 4096), ("16777216", 16_777_216)] {
        let flag = format!("--ebpf-flows={value}");
        assert_eq!(options(&flag).flows, Some(expected));
    }
    for value in ["4095", "16777217", "0", "-1", "1e6", ""] {
        wrong("--ebpf-flows", value, "is not between 4096 and 16777216");
    }
}

#[test]
fn tables_of_maglev_have_sizes_that_are_prime() {
    for (value, expected) in [("4093", 4093), ("16381", 16_381), ("65521", 65_521)] {
        let flag = format!("--ebpf-maglev-size={value}");
        assert_eq!(options(&flag).maglev_size, expected);
    }
    let problem = "is not one of 4093, 16381, 65521";
    for value in ["4096", "0", "many", ""] {
        wrong("--ebpf-maglev-size", value, problem);
    }
}

#[test]
fn all_problems_are_said_at_once() {
    check(
        "--proxy-mode=ebpf --ebpf-interfaces=a/b --ebpf-dsr-exclude=x --ebpf-dsr-port=0 \
         --ebpf-flows=1 --ebpf-maglev-size=2",
        &[
            "--ebpf-interfaces: \"a/b\" is no pattern of names such as eth* or !docker*",
            "--ebpf-dsr-port: \"0\" is no port",
            "--ebpf-flows: \"1\" is not between 4096 and 16777216",
            "--ebpf-maglev-size: \"2\" is not one of 4093, 16381, 65521",
            "--ebpf-dsr-exclude: \"x\" is no prefix such as 192.0.2.0/24",
        ],
    );
}

/// Every flag, with a value that is not the default.
const GIVEN: [(&str, &str); 9] = [
    ("--ebpf-interfaces", "eth0"),
    ("--ebpf-sockets", "all"),
    ("--ebpf-end-sockets", "all"),
    ("--ebpf-cgroup", "/c"),
    ("--ebpf-dsr", "all"),
    ("--ebpf-dsr-exclude", "10.0.0.0/8"),
    ("--ebpf-dsr-port", "1"),
    ("--ebpf-flows", "4096"),
    ("--ebpf-maglev-size", "4093"),
];

#[test]
fn in_another_mode_a_warning_names_the_flags() {
    for mode in ["nftables", "iptables", "ipvs"] {
        for (flag, value) in GIVEN {
            let config = validate(&format!("--proxy-mode={mode} {flag}={value}"));
            let expected = format!("without effect in the {mode} mode: {flag}");
            assert_eq!(config.expect("valid").node.warnings, [expected]);
        }
    }
    let all = GIVEN.map(|(flag, value)| format!("{flag}={value}"));
    let all = all.join(" ");
    let config = validate(&all).expect("valid");
    let names = GIVEN.map(|(flag, _)| flag).join(", ");
    let expected = format!("without effect in the nftables mode: {names}");
    assert_eq!(config.node.warnings, [expected]);
    let config = validate(&format!("--proxy-mode=ebpf {all}"));
    assert_eq!(config.expect("valid").node.warnings, [""; 0]);
}

/// The plan of another mode is the same as without the flags.
#[test]
fn in_another_mode_the_flags_have_no_effect() {
    for (flag, value) in GIVEN {
        assert_eq!(settings(&format!("{flag}={value}")), settings(""), "{flag}");
    }
    assert_ne!(
        settings("--proxy-mode=ebpf --ebpf-dsr=all"),
        settings("--proxy-mode=ebpf")
    );
}

/// A wrong value is refused in every mode: it would be one when the mode changes.
#[test]
fn in_another_mode_a_wrong_value_is_a_problem() {
    check(
        "--proxy-mode=nftables --ebpf-dsr-port=0",
        &["--ebpf-dsr-port: \"0\" is no port"],
    );
    refused("--ebpf-dsr", "perhaps");
}
