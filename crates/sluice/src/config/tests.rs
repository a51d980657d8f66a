use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    proxy: ProxyArgs,
}

fn validate(flags: &str) -> anyhow::Result<ProxyConfig> {
    let args = ["proxy", "--manifests=/m"].into_iter();
    let flags = flags.split(' ').filter(|it| !it.is_empty());
    let flags = Flags::try_parse_from(args.chain(flags)).expect("clap takes any text");
    flags.proxy.validate(" Node-A.Example \n")
}

#[track_caller]
fn settings(flags: &str) -> Settings {
    validate(flags).expect("valid flags").node.settings
}

#[track_caller]
fn check(flags: &str, problems: &[&str]) {
    let error = validate(flags).expect_err("invalid flags");
    let Some(Usage(found)) = error.downcast_ref() else {
        panic!("no usage error: {error}");
    };
    assert_eq!(found, problems);
}

fn nets(all: &[&str]) -> Vec<IpNet> {
    all.iter().map(|it| it.parse().expect("a prefix")).collect()
}

#[test]
fn defaults_are_kube_proxys() {
    let config = validate("").expect("valid");
    assert_eq!(config.node.settings, Settings::for_node("node-a.example"));
    assert_eq!(config.health_address, "0.0.0.0:10256".parse().ok());
    assert_eq!(config.periods, Periods::default());
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
    assert_eq!(
        node_ports("--nodeport-addresses="),
        NodePortAddresses::Primary
    );
    assert_eq!(
        node_ports("--nodeport-addresses=10.0.0.0/8,::/0"),
        NodePortAddresses::Within(nets(&["10.0.0.0/8", "::/0"]))
    );
    let health = |flags| validate(flags).expect("valid").health_address;
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
}

#[test]
fn all_problems_are_reported_at_once() {
    check(
        "--proxy-mode=userspace --hostname-override=  --cluster-cidr=10.0.0.0 \
         --detect-local-mode=Magic --nodeport-addresses=primary,here --masquerade-all=perhaps \
         --iptables-masquerade-bit=32 --healthz-bind-address=here --min-sync-period=5 \
         --resync-period=0s",
        &[
            "--proxy-mode: \"userspace\" is not one of nftables, iptables, ipvs, ebpf",
            "--hostname-override: the node needs a name",
            "--masquerade-all: \"perhaps\" is not true or false",
            "--iptables-masquerade-bit: \"32\" is not in 0 to 31",
            "--cluster-cidr: \"10.0.0.0\" is no prefix such as 10.244.0.0/16",
            "--detect-local-mode: \"Magic\" is not one of ClusterCIDR, NodeCIDR, \
             BridgeInterface, InterfaceNamePrefix",
            "--nodeport-addresses: `primary` stands alone",
            "--nodeport-addresses: \"here\" is neither `primary` nor a prefix such as \
             192.168.0.0/16",
            "--healthz-bind-address: \"here\" is no address and port such as 0.0.0.0:10256",
            "--min-sync-period: \"5\" is no duration such as 30s, 1m30s, 100ms",
            "--resync-period: must be longer than 0",
        ],
    );
}

#[test]
fn each_mode_of_detection_needs_its_name() {
    check(
        "--detect-local-mode=BridgeInterface",
        &["--pod-bridge-interface: --detect-local-mode BridgeInterface needs it"],
    );
    check(
        "--detect-local-mode=InterfaceNamePrefix",
        &["--pod-interface-name-prefix: --detect-local-mode InterfaceNamePrefix needs it"],
    );
    check(
        "--detect-local-mode=BridgeInterface --pod-bridge-interface=sixteen-is-a-lot",
        &["--pod-bridge-interface: \"sixteen-is-a-lot\": interface names have at most 15 bytes"],
    );
}

#[test]
fn two_prefixes_are_one_of_each_family() {
    check(
        "--cluster-cidr=10.0.0.0/8,11.0.0.0/8",
        &["--cluster-cidr: two prefixes must be one of each family"],
    );
    check(
        "--cluster-cidr=10.0.0.0/8,fd00::/48,11.0.0.0/8",
        &["--cluster-cidr: 3 prefixes, at most one of each family"],
    );
}

#[test]
fn a_health_port_of_zero_is_none() {
    check(
        "--healthz-bind-address=0.0.0.0:0",
        &["--healthz-bind-address: port 0 is none; leave the flag empty for no health server"],
    );
}

#[test]
fn the_shortest_period_is_not_longer_than_the_resync() {
    check(
        "--min-sync-period=2h",
        &["--min-sync-period: is longer than --resync-period"],
    );
}

#[test]
fn a_mode_that_is_not_built_is_no_wrong_usage() {
    let error = validate("--proxy-mode=ipvs").expect_err("not built");
    assert!(error.downcast_ref::<Usage>().is_none());
    assert_eq!(
        error.to_string(),
        "--proxy-mode ipvs is not built yet: use nftables"
    );
}

#[test]
fn without_a_source_it_says_what_to_do() {
    let args = NodeArgs {
        proxy_mode: "nftables".to_owned(),
        detect_local_mode: "ClusterCIDR".to_owned(),
        masquerade_all: "false".to_owned(),
        iptables_masquerade_bit: "14".to_owned(),
        ..NodeArgs::default()
    };
    let error = args.validate("node-a").expect_err("no source").to_string();
    assert_eq!(
        error,
        "--manifests: an API server source is not built yet; use --manifests DIR"
    );
}
