mod reference;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    flags: Flags,
}

fn parse(all: &[&str]) -> Flags {
    let args = ["kube-proxy"].iter().chain(all);
    Typed::try_parse_from(args).expect("known flags").flags
}

/// The configuration after these flags.
#[track_caller]
fn set(all: &[&str]) -> KubeProxyConfiguration {
    let mut config = KubeProxyConfiguration::defaulted();
    assert_eq!(parse(all).apply(&mut config), [""; 0]);
    config
}

/// A value that is not the default of any field.
fn example(flag: &Flag) -> &'static str {
    match (flag.name, flag.value) {
        ("v", _) => "7",
        ("iptables-localhost-nodeports", _) => "false",
        (_, BOOL) => "true",
        (_, "TIME") => "7s",
        (_, "N" | "BIT" | "MB") => "7",
        ("healthz-port" | "metrics-port", _) => "0",
        (_, "IP" | "IP:PORT") => "192.0.2.1",
        (_, "NAME=BOOL,..") => "AllAlpha=true",
        (_, "PATTERN=LEVEL,..") => "proxier=4",
        _ => "x",
    }
}

#[test]
fn each_flag_sets_its_field_and_no_other() {
    let json = |it: &KubeProxyConfiguration| serde_json::to_value(it).expect("plain values");
    for mode in ["", "nftables"] {
        let mut base = KubeProxyConfiguration::defaulted();
        base.mode = mode.to_owned();
        for flag in all() {
            let mut config = base.clone();
            (flag.set)(&mut config, example(flag)).expect("a good value");
            let paths = flag
                .fields
                .iter()
                .map(|it| format!("/{}", it.replace('.', "/")));
            let changed: Vec<String> = paths
                .filter(|it| json(&config).pointer(it) != json(&base).pointer(it))
                .collect();
            let expected = usize::from(!flag.fields.is_empty());
            assert_eq!(changed.len(), expected, "--{} {changed:?}", flag.name);
        }
    }
}

#[test]
fn every_field_exists() {
    let known = serde_json::to_value(KubeProxyConfiguration::default()).expect("plain values");
    for field in all().flat_map(|it| it.fields) {
        let path = format!("/{}", field.replace('.', "/"));
        assert!(known.pointer(&path).is_some(), "{field}");
    }
}

/// The flags of kube-proxy 1.36, `cmd/kube-proxy/app/options.go` and `component-base/logs`, but
/// for those that are no part of the configuration.
const KUBE_PROXY: &str = "feature-gates kubeconfig kube-api-content-type kube-api-burst \
    kube-api-qps hostname-override bind-address healthz-bind-address metrics-bind-address \
    bind-address-hard-fail profiling show-hidden-metrics-for-version proxy-mode \
    iptables-masquerade-bit masquerade-all iptables-localhost-nodeports iptables-sync-period \
    iptables-min-sync-period ipvs-sync-period ipvs-min-sync-period ipvs-scheduler \
    ipvs-exclude-cidrs ipvs-strict-arp ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout \
    detect-local-mode pod-bridge-interface pod-interface-name-prefix cluster-cidr \
    nodeport-addresses oom-score-adj conntrack-max-per-core conntrack-min \
    conntrack-tcp-timeout-established conntrack-tcp-timeout-close-wait conntrack-tcp-be-liberal \
    conntrack-udp-timeout conntrack-udp-timeout-stream config-sync-period healthz-port \
    metrics-port v vmodule logging-format log-flush-frequency log-text-split-stream \
    log-text-info-buffer-size log-json-split-stream log-json-info-buffer-size windows-service \
    source-vip network-name root-hnsendpoint-name enable-dsr forward-healthcheck-vip";

#[test]
fn every_flag_of_kube_proxy_is_known() {
    for name in KUBE_PROXY.split_whitespace() {
        assert!(all().any(|it| it.name == name), "--{name}");
    }
}

#[test]
fn all_ways_to_write_a_value() {
    for flags in [
        &[
            "--conntrack-min=7",
            "--oom-score-adj=-5",
            "--masquerade-all",
        ][..],
        &[
            "--conntrack-min",
            "7",
            "--oom-score-adj",
            "-5",
            "--masquerade-all=1",
        ],
    ] {
        let config = set(flags);
        assert_eq!(config.conntrack.min, Some(7));
        assert_eq!(config.oom_score_adj, Some(-5));
        assert!(config.iptables.masquerade_all);
    }
    assert_eq!(
        set(&["--conntrack-min=3", "--conntrack-min=7"])
            .conntrack
            .min,
        Some(7)
    );
    let lists = set(&[
        "--nodeport-addresses=10.0.0.0/8",
        "--nodeport-addresses=fd00::/8,::/0",
    ]);
    let lists = lists.node_port_addresses.expect("set");
    assert_eq!(lists, ["10.0.0.0/8", "fd00::/8", "::/0"]);
    let gates = set(&["--feature-gates=A=true,B=false", "--feature-gates=B=1"]).feature_gates;
    assert_eq!(
        gates.into_iter().collect::<Vec<_>>(),
        [("A".into(), true), ("B".into(), true)]
    );
}

#[test]
fn zero_is_a_value_of_a_flag() {
    let config = set(&[
        "--iptables-min-sync-period=0s",
        "--iptables-masquerade-bit=0",
    ]);
    assert!(config.iptables.min_sync_period.is_zero());
    assert_eq!(config.iptables.masquerade_bit, Some(0));
}

#[test]
fn an_address_without_a_port_gets_the_default() {
    let health = |it: &str| set(&[&format!("--healthz-bind-address={it}")]).healthz_bind_address;
    assert_eq!(health("::1"), "[::1]:10256");
    assert_eq!(health("192.0.2.1:5"), "192.0.2.1:5");
    assert_eq!(health(""), "");
}

#[test]
fn what_cannot_be_read_is_told_by_flag() {
    let flags = parse(&[
        "--conntrack-min=many",
        "--masquerade-all=perhaps",
        "--ipvs-tcp-timeout=5",
        "--kube-api-qps=inf",
        "--healthz-port=-1",
        "--feature-gates=A",
        "--vmodule=x",
        "-v=-1",
    ]);
    let problems = flags.apply(&mut KubeProxyConfiguration::defaulted());
    assert_eq!(
        problems,
        [
            "--masquerade-all: \"perhaps\" is not true or false",
            "--kube-api-qps: \"inf\" is no number",
            "--healthz-port: \"-1\" is no port",
            "--conntrack-min: \"many\" is no whole number of 32 bits",
            "--ipvs-tcp-timeout: \"5\" is no duration such as 30s, 1m30s, 100ms",
            "--v: \"-1\" is no whole number from 0",
            "--vmodule: \"x\" is not PATTERN=LEVEL",
            "--feature-gates: \"A\" is not NAME=true or NAME=false",
        ]
    );
}

#[test]
fn beside_a_file_only_some_count() {
    let flags = parse(&["--conntrack-min=7", "-v=5", "--hostname-override=n"]);
    assert_eq!(flags.ignored_beside_file(), ["--conntrack-min"]);
    let mut config = KubeProxyConfiguration::defaulted();
    flags.apply_to_file(&mut config);
    assert_eq!(config.logging.verbosity, 5);
    assert_eq!(config.hostname_override, "n");
    assert_eq!(config.conntrack.min, Some(131_072));
}

#[test]
fn flags_of_the_past_say_so() {
    let flags = parse(&["--logtostderr", "--log-dir=/x", "--healthz-port=0"]);
    assert_eq!(
        flags.warnings(),
        [
            "--healthz-port: is deprecated: use --healthz-bind-address",
            "--log-dir: is ignored: it has no effect",
            "--logtostderr: is ignored: it has no effect",
        ]
    );
}
