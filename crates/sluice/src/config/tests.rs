use clap::Parser;
use ipnet::IpNet;
use sluice_config::{LogFormat, Mode};
use sluice_plan::settings::{LocalDetector, NodePortAddresses};
use tempfile::NamedTempFile;

use super::*;
use sluice_config::Invalid;

#[derive(Debug, Parser)]
pub(super) struct Typed {
    #[command(flatten)]
    proxy: ProxyArgs,
}

pub(super) fn validate(flags: &str) -> anyhow::Result<ProxyConfig> {
    let args = ["proxy", "--manifests=/m"].into_iter();
    let flags = flags.split(' ').filter(|it| !it.is_empty());
    let flags = Typed::try_parse_from(args.chain(flags)).expect("clap takes any text");
    flags.proxy.validate(" Node-A.Example \n")
}

#[track_caller]
pub(super) fn settings(flags: &str) -> Settings {
    validate(flags).expect("valid flags").node.settings
}

#[track_caller]
pub(super) fn check(flags: &str, problems: &[&str]) {
    let error = validate(flags).expect_err("invalid flags");
    let Some(found) = error.downcast_ref::<Invalid>() else {
        panic!("no usage error: {error}");
    };
    assert_eq!(found.problems, problems);
    assert_eq!(found.exit_code, 2);
}

pub(super) fn nets(all: &[&str]) -> Vec<IpNet> {
    all.iter().map(|it| it.parse().expect("a prefix")).collect()
}

#[test]
fn defaults_are_kube_proxys() {
    let config = validate("").expect("valid");
    let settings = Settings {
        node_port_range: Some(30_000..=32_767),
        own_ports: [10249, 10256].into(),
        costs: config.node.settings.costs,
        ..Settings::for_node("node-a.example")
    };
    assert_eq!(config.node.settings, settings);
    assert_eq!(
        config.node.effective.health_address,
        "0.0.0.0:10256".parse().ok()
    );
    let periods = Periods {
        min_sync: Duration::ZERO,
        resync: RESYNC,
    };
    assert_eq!(config.periods, periods);
}

#[test]
fn every_flag_has_its_meaning() {
    assert_eq!(&*settings("--hostname-override=N1").node_name, "n1");
    assert!(settings("--masquerade-all").masquerade_all);
    assert!(settings("--masquerade-all=True").masquerade_all);
    assert!(!settings("--masquerade-all=false").masquerade_all);
    assert_eq!(settings("--iptables-masquerade-bit=0").masquerade_mark, 1);
    assert_eq!(settings("--masquerade-bit=31").masquerade_mark, 1 << 31);
    let detector = |flags| settings(flags).local_detector;
    assert_eq!(detector("--cluster-cidr="), LocalDetector::None);
    assert_eq!(
        detector("--cluster-cidr=10.0.0.0/8,fd00::/48"),
        LocalDetector::ClusterCidrs(nets(&["10.0.0.0/8", "fd00::/48"]))
    );
    assert_eq!(
        detector("--detect-local-mode=NodeCIDR"),
        LocalDetector::NodeCidr
    );
    assert_eq!(
        detector("--detect-local-mode=BridgeInterface --pod-bridge-interface=cni0"),
        LocalDetector::Bridge("cni0".into())
    );
    assert_eq!(
        detector("--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=veth"),
        LocalDetector::InterfacePrefix("veth".into())
    );
    let node_ports = |flags| settings(flags).node_ports;
    let all = NodePortAddresses::Within(Vec::new());
    assert_eq!(node_ports(""), NodePortAddresses::Primary);
    assert_eq!(node_ports("--nodeport-addresses="), all);
    assert_eq!(node_ports("--proxy-mode="), all);
    assert_eq!(
        node_ports("--nodeport-addresses=10.0.0.0/8,::/0"),
        NodePortAddresses::Within(nets(&["10.0.0.0/8", "::/0"]))
    );
    let health = |flags| {
        validate(flags)
            .expect("valid")
            .node
            .effective
            .health_address
    };
    assert_eq!(health("--healthz-bind-address="), None);
    assert_eq!(
        health("--healthz-bind-address=::1"),
        "[::1]:10256".parse().ok()
    );
    assert_eq!(
        health("--healthz-bind-address=[::]"),
        "[::]:10256".parse().ok()
    );
    assert_eq!(
        health("--healthz-bind-address=[::]:1"),
        "[::]:1".parse().ok()
    );
    let periods = validate("--min-sync-period=1s --resync-period=1h30m");
    let periods = periods.expect("valid").periods;
    assert_eq!(periods.min_sync, Duration::from_secs(1));
    assert_eq!(periods.resync, Duration::from_secs(5400));
    let periods = validate("--iptables-min-sync-period=3s")
        .expect("valid")
        .periods;
    assert_eq!(periods.min_sync, Duration::from_secs(3));
}

#[test]
fn all_problems_are_reported_at_once() {
    check(
        "--proxy-mode=userspace --cluster-cidr=10.0.0.0 --detect-local-mode=Magic \
         --nodeport-addresses=primary,here --masquerade-all=perhaps --iptables-masquerade-bit=32 \
         --healthz-bind-address=here --min-sync-period=5 --resync-period=0s --oom-score-adj=high \
         --external-ip-allow=192.0.2.1 --kubeconfig=/k --feature-gates=A --conntrack-min=-1",
        &[
            "--masquerade-all: \"perhaps\" is not true or false",
            "--oom-score-adj: \"high\" is no whole number of 32 bits",
            "--feature-gates: \"A\" is not NAME=true or NAME=false",
            "--proxy-mode: \"userspace\": must be empty or one of nftables, iptables, ipvs, ebpf",
            "--iptables-masquerade-bit: 32: must be within 0 to 31",
            "--cluster-cidr: \"10.0.0.0\": must be a prefix such as 10.244.0.0/16, or one of each family",
            "--detect-local-mode: \"Magic\": must be empty or one of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix",
            "--nodeport-addresses: \"primary\": must stand alone",
            "--nodeport-addresses: \"here\": must be `primary` or a prefix such as 192.168.0.0/16",
            "--conntrack-min: -1: must not be negative",
            "--healthz-bind-address: \"here\": must be an address and a port such as 0.0.0.0:10256",
            "--external-ip-allow: \"192.0.2.1\" is no prefix such as 192.0.2.0/24",
            "--kubeconfig: not together with --manifests: give one of them",
            "--min-sync-period: \"5\" is no duration such as 30s, 1m30s, 100ms",
            "--resync-period: must be longer than 0",
        ],
    );
}

#[test]
fn each_mode_of_detection_needs_its_name() {
    check(
        "--detect-local-mode=BridgeInterface",
        &["--pod-bridge-interface: \"\": detectLocalMode BridgeInterface needs it"],
    );
    check(
        "--detect-local-mode=InterfaceNamePrefix",
        &["--pod-interface-name-prefix: \"\": detectLocalMode InterfaceNamePrefix needs it"],
    );
}

#[test]
fn a_health_port_of_zero_is_none() {
    check(
        "--healthz-bind-address=0.0.0.0:0",
        &["--healthz-bind-address: \"0.0.0.0:0\": the port must be within 1 to 65535"],
    );
    let config = validate("--healthz-port=0 --metrics-port=0").expect("valid");
    assert_eq!(config.node.effective.health_address, None);
    assert_eq!(config.node.effective.metrics_address, None);
}

#[test]
fn a_node_needs_a_name() {
    for (given, quoted) in [("\t", "\\t"), ("node_a", "node_a")] {
        let problem = format!(
            "--hostname-override: \"{quoted}\": must be a node's name such as node-1.example: at most \
             253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends and beside each '.'"
        );
        check(&format!("--hostname-override={given}"), &[&problem]);
    }
}

#[test]
fn the_shortest_period_is_not_longer_than_the_resync() {
    check(
        "--min-sync-period=2h",
        &["--min-sync-period: is longer than --resync-period"],
    );
    check(
        "--proxy-mode=ipvs --min-sync-period=10m",
        &["--min-sync-period: is longer than ipvs.syncPeriod"],
    );
    check(
        "--iptables-min-sync-period=20s --resync-period=10s",
        &["minSyncPeriod: is longer than --resync-period"],
    );
}

#[test]
fn in_the_ipvs_mode_the_given_sync_period_is_that_of_the_resync() {
    let minutes = |it| Duration::from_mins(it);
    let resync = |config: anyhow::Result<ProxyConfig>| config.expect("valid").periods.resync;
    for (flags, expected) in [
        ("--proxy-mode=ipvs", minutes(5)),
        ("--proxy-mode=ipvs --ipvs-sync-period=2m", minutes(2)),
        (
            "--proxy-mode=ipvs --ipvs-sync-period=2m --resync-period=3m",
            minutes(3),
        ),
        ("--proxy-mode=nftables --ipvs-sync-period=2m", minutes(60)),
    ] {
        assert_eq!(resync(validate(flags)), expected, "{flags}");
    }
    for (file, expected) in [
        ("mode: ipvs\nipvs: {syncPeriod: 0s}\n", minutes(5)),
        ("mode: ipvs\nipvs: {syncPeriod: 2m}\n", minutes(2)),
        ("mode: nftables\nipvs: {syncPeriod: 2m}\n", minutes(60)),
    ] {
        assert_eq!(resync(with_file(file, "").1), expected, "{file}");
    }
}

/// A configuration file, and the flags that name it.
fn with_file(rest: &str, flags: &str) -> (NamedTempFile, anyhow::Result<ProxyConfig>) {
    let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    let file = NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), format!("{head}{rest}")).expect("writable");
    let flags = format!("--config={} {flags}", file.path().display());
    let config = validate(&flags);
    (file, config)
}

#[test]
fn a_file_is_the_configuration() {
    let (file, config) = with_file(
        "mode: nftables\nclusterCIDR: 10.0.0.0/8\nhostnameOverride: from-file\n\
         nftables: {minSyncPeriod: 3s}\nlogging: {verbosity: 2, format: json}\nudpIdleTimeout: 1s\n\
         portRange: 1-2\n",
        "--cluster-cidr=11.0.0.0/8 --oom-score-adj=5 --hostname-override=Typed -v 6",
    );
    let config = config.expect("valid");
    let node = &config.node;
    assert_eq!(&*node.settings.node_name, "typed");
    let cidrs = LocalDetector::ClusterCidrs(nets(&["10.0.0.0/8"]));
    assert_eq!(node.settings.local_detector, cidrs);
    assert_eq!(node.effective.oom_score_adj, -999);
    assert_eq!(node.effective.verbosity, 6);
    assert_eq!(node.effective.log_format, LogFormat::Json);
    assert_eq!(config.periods.min_sync, Duration::from_secs(3));
    let name = file.path().display();
    assert_eq!(
        node.warnings,
        [
            format!("{name}: is not strictly valid: line 8: udpIdleTimeout: unknown field"),
            "ignored because --config is given: --cluster-cidr, --oom-score-adj".to_owned(),
            format!("{name}: line 9: portRange: is ignored: deprecated, it has no effect"),
        ]
    );
}

#[test]
fn problems_of_a_file_have_lines() {
    let (file, config) = with_file("iptables:\n  masqueradeBit: 32\nmode: x\n", "");
    let error = config.expect_err("invalid");
    let name = file.path().display();
    let Some(found) = error.downcast_ref::<Invalid>() else {
        panic!("another error: {error}");
    };
    assert_eq!(found.exit_code, 1);
    let modes = "must be empty or one of nftables, iptables, ipvs, ebpf";
    assert_eq!(
        found.problems,
        [
            format!("{name}: line 5: mode: \"x\": {modes}"),
            format!("{name}: line 4: iptables.masqueradeBit: 32: must be within 0 to 31"),
        ]
    );
    let (_file, config) = with_file("", "--logging-format=xml");
    let error = config.expect_err("invalid");
    let invalid = error.downcast_ref::<Invalid>();
    assert_eq!(invalid.map(|it| it.exit_code), Some(2), "{error}");
    let error = validate("--config=/does/not/exist").expect_err("no file");
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}

#[test]
fn a_file_without_a_mode_is_of_an_iptables_node() {
    let (_file, config) = with_file("iptables: {masqueradeAll: true}\n", "--min-sync-period=7s");
    let config = config.expect("valid");
    assert!(config.node.effective.mode_is_default);
    assert!(config.node.settings.masquerade_all);
    assert_eq!(
        config.node.settings.node_ports,
        NodePortAddresses::Within(Vec::new())
    );
    assert_eq!(config.periods.min_sync, Duration::from_secs(7));
}

fn without_folder(flags: &[&str]) -> anyhow::Result<ProxyConfig> {
    let args = ["proxy"].iter().chain(flags);
    let typed = Typed::try_parse_from(args).expect("clap takes any text");
    typed.proxy.validate("node-a")
}

#[test]
fn without_a_folder_it_is_an_api_server() {
    let flags = [
        "--kubeconfig=/k",
        "--master=https://m",
        "--kube-api-qps=2.5",
        "--kube-api-burst=9",
    ];
    let config = without_folder(&flags).expect("valid");
    assert_eq!(config.node.settings.node_port_range, None);
    assert!(without_folder(&["--service-node-port-range=1-2"]).is_err());
    let source = Source::ApiServer {
        kubeconfig: Some("/k".into()),
        master: Some("https://m".to_owned()),
        qps: 2.5,
        burst: 9,
    };
    assert_eq!(config.node.source, source);
    let shown = "API server https://m, 2.5 requests per second, 9 at once";
    assert_eq!(config.node.source.to_string(), shown);
    assert_eq!(config.periods.min_sync, Duration::ZERO);
    // kube-proxy's defaults, not those of a folder.
    assert_eq!(
        config.node.settings.node_ports,
        NodePortAddresses::Within(Vec::new())
    );
    assert_eq!(config.node.effective.mode, Mode::Nftables);
}

#[test]
fn external_addresses_are_allowed_and_refused_by_flags() {
    let allowed = |flags| settings(flags).external_ips;
    assert_eq!(allowed(""), None);
    assert_eq!(allowed("--external-ip-allow="), Some(Vec::new()));
    let some = Some(nets(&["192.0.2.0/24", "fd00::/64"]));
    assert_eq!(allowed("--external-ip-allow=192.0.2.0/24,fd00::/64"), some);
    assert!(settings("--refuse-shadowing-vips").refuse_shadowing);
    assert!(!settings("--refuse-shadowing-vips=F").refuse_shadowing);
    assert!(!settings("").refuse_shadowing);
}

#[test]
fn the_range_of_node_ports_and_the_ports_of_own_servers_are_known() {
    let range = |flags| settings(flags).node_port_range;
    assert_eq!(range("--service-node-port-range=80-9000"), Some(80..=9000));
    for wrong in ["80", "9-8", "0-9", "80-90000", "a-b"] {
        check(
            &format!("--service-node-port-range={wrong}"),
            &[&format!(
                "--service-node-port-range: \"{wrong}\" is no range such as 30000-32767"
            )],
        );
    }
    let own = |flags| settings(flags).own_ports;
    let flags = "--healthz-bind-address=0.0.0.0:1 --metrics-bind-address=127.0.0.1:2";
    assert_eq!(own(flags), [1, 2].into());
    assert_eq!(
        own("--healthz-bind-address= --metrics-bind-address="),
        [].into()
    );
}
