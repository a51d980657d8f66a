use super::*;
use crate::decode;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn effective(rest: &str) -> Result<Effective, Vec<Problem>> {
    let mut config = decode(format!("{HEAD}{rest}").as_bytes())?.config;
    config.set_defaults();
    config.effective()
}

#[track_caller]
fn good(rest: &str) -> Effective {
    effective(rest).expect("valid")
}

#[track_caller]
fn check(rest: &str, expected: &[&str]) {
    let problems = effective(rest).expect_err("invalid");
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "{rest}");
}

fn nets(all: &[&str]) -> Vec<IpNet> {
    all.iter().map(|it| it.parse().expect("a prefix")).collect()
}

#[test]
fn without_a_mode_it_is_what_an_iptables_user_had() {
    let it = good(
        "iptables: {masqueradeAll: true, masqueradeBit: 3, syncPeriod: 9s, minSyncPeriod: 2s}\n\
         nftables: {masqueradeBit: 4, syncPeriod: 8s}\n",
    );
    assert_eq!((it.mode, it.mode_is_default), (Mode::Nftables, true));
    assert!(it.masquerade_all);
    assert_eq!(it.masquerade_mark, 1 << 3);
    assert_eq!(it.periods.sync, Duration::from_secs(9));
    assert_eq!(it.periods.min_sync, Duration::from_secs(2));
    assert_eq!(it.node_ports, NodePortAddresses::Within(Vec::new()));
}

#[test]
fn the_mode_chooses_the_section() {
    let sections = "iptables: {masqueradeAll: true, masqueradeBit: 3, syncPeriod: 9s}\n\
                    nftables: {masqueradeBit: 31, syncPeriod: 8s}\nipvs: {syncPeriod: 7s}\n";
    let of = |mode: &str| {
        let it = good(&format!("mode: {mode}\n{sections}"));
        let secs = (it.periods.sync.as_secs(), it.periods.min_sync.as_secs());
        (
            it.mode,
            secs,
            it.masquerade_all,
            it.masquerade_mark,
            it.node_ports,
        )
    };
    let all = || NodePortAddresses::Within(Vec::new());
    let primary = NodePortAddresses::Primary;
    assert_eq!(
        of("nftables"),
        (Mode::Nftables, (8, 0), false, 1 << 31, primary)
    );
    assert_eq!(
        of("iptables"),
        (Mode::Iptables, (9, 0), true, 1 << 3, all())
    );
    assert_eq!(of("ipvs"), (Mode::Ipvs, (7, 0), true, 1 << 3, all()));
}

#[test]
fn every_value_has_its_meaning() {
    let it = good(
        "hostnameOverride: \" Node-A \"\nbindAddress: 192.0.2.7\nenableProfiling: true\n\
         clusterCIDR: 10.0.0.0/8,fd00::/48\nnodePortAddresses: [10.0.0.0/8, \"::/0\"]\n\
         conntrack: {min: 5, udpTimeout: 1s, tcpBeLiberal: true, tcpEstablishedTimeout: 0s}\n\
         clientConnection: {kubeconfig: /k, qps: 1, burst: 2}\nlogging: {format: json, verbosity: 4}\n",
    );
    assert_eq!(it.hostname_override.as_deref(), Some("node-a"));
    assert_eq!(it.node_ip, "192.0.2.7".parse().ok());
    let cidrs = nets(&["10.0.0.0/8", "fd00::/48"]);
    assert_eq!(it.local_detector, LocalDetector::ClusterCidrs(cidrs));
    let within = nets(&["10.0.0.0/8", "::/0"]);
    assert_eq!(it.node_ports, NodePortAddresses::Within(within));
    assert_eq!((it.conntrack.min, it.conntrack.max_per_core), (5, 32_768));
    assert_eq!(it.conntrack.udp, Duration::from_secs(1));
    assert_eq!(it.conntrack.tcp_established, Duration::ZERO);
    assert_eq!(it.conntrack.tcp_close_wait, Duration::from_secs(3600));
    assert_eq!(it.client.kubeconfig, Some("/k".into()));
    assert_eq!((it.client.qps, it.client.burst), (1.0, 2));
    assert_eq!((it.verbosity, it.log_format), (4, LogFormat::Json));
    assert!(it.profiling && it.conntrack.tcp_be_liberal);
    let settings = it.settings("host");
    assert_eq!(&*settings.node_name, "node-a");
    assert_eq!(settings.node_ip, it.node_ip);
    assert_eq!(&*good("").settings(" Host\n").node_name, "host");
    assert_eq!(good("bindAddress: \"::\"").node_ip, None);
}

#[test]
fn ways_to_detect_local_traffic() {
    let detector = |rest: &str| good(rest).local_detector;
    assert_eq!(detector(""), LocalDetector::None);
    assert_eq!(
        detector("detectLocalMode: NodeCIDR"),
        LocalDetector::NodeCidr
    );
    assert_eq!(
        detector("detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}"),
        LocalDetector::Bridge("cni0".into())
    );
    assert_eq!(
        detector("detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}"),
        LocalDetector::InterfacePrefix("veth".into())
    );
    let long = "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: sixteen-is-a-lot}";
    check(
        long,
        &[
            "detectLocal.bridgeInterface: \"sixteen-is-a-lot\": interface names have at most 15 bytes",
        ],
    );
}

/// What a node's name must be.
const NODE_NAME: &str = "must be a node's name such as node-1.example: at most 253 of a-z, 0-9, '-' and \
                         '.', with a letter or digit at both ends and beside each '.'";

#[test]
fn a_node_has_the_name_of_a_dns_subdomain() {
    for good in ["a", "node-1.example", "Node-A", " node-a\n", "1.2"] {
        let text = format!("hostnameOverride: {good:?}");
        assert!(effective(&text).is_ok(), "{good:?}");
    }
    let long = "a".repeat(254);
    for bad in [
        "node_a", "-a", "a-", "a..b", "a.-b", ".", "a b", "nöde", &long,
    ] {
        let shown = sluice_yaml::quoted(bad);
        let problem = format!("hostnameOverride: {shown}: {NODE_NAME}");
        check(&format!("hostnameOverride: {bad:?}"), &[&problem]);
    }
}

#[test]
fn every_problem_at_once() {
    check(
        "mode: userspace\nbindAddress: here\nhealthzBindAddress: 1.2.3.4:0\n\
         metricsBindAddress: fd00::1:x\noomScoreAdj: 1001\nconfigSyncPeriod: -1s\n\
         iptables: {masqueradeBit: 32, syncPeriod: -1s, minSyncPeriod: -2s}\n\
         nftables: {masqueradeBit: -1}\nclusterCIDR: 10.0.0.0/8,10.0.0.0/8\n\
         nodePortAddresses: [primary, here, localhost, all]\ndetectLocalMode: BridgeInterface\n\
         conntrack: {maxPerCore: -1, min: -1, tcpEstablishedTimeout: -1s, tcpCloseWaitTimeout: -1s, \
         udpTimeout: -1s, udpStreamTimeout: -1s}\nclientConnection: {burst: -1}\n\
         showHiddenMetricsForVersion: \"1.2\"\nhostnameOverride: \" \"\n\
         logging: {format: xml, verbosity: 4294967295, vmodule: [{filePattern: \"a=b\"}], \
         options: {json: {infoBufferSize: much}}}\nipvs: {tcpTimeout: -1s}\n",
        &[
            "mode: \"userspace\": must be empty or one of nftables, iptables, ipvs, ebpf",
            "iptables.masqueradeBit: 32: must be within 0 to 31",
            "nftables.masqueradeBit: -1: must be within 0 to 31",
            &format!("hostnameOverride: \" \": {NODE_NAME}"),
            "showHiddenMetricsForVersion: \"1.2\": must be empty or the previous minor version, 1.35",
            "logging.verbosity: 4294967295: must not be larger than 2147483647",
            "logging.vmodule[0].filePattern: \"a=b\": must be a name without `=` and `,`",
            "logging.options.json.infoBufferSize: \"much\": must be a quantity such as 64Ki",
            "logging.format: \"xml\": must be text or json",
            "clusterCIDR: \"10.0.0.0/8,10.0.0.0/8\": two prefixes must be one of each family",
            "detectLocal.bridgeInterface: \"\": detectLocalMode BridgeInterface needs it",
            "nodePortAddresses[0]: \"primary\": must stand alone",
            "nodePortAddresses[1]: \"here\": must be `primary` or a prefix such as 192.168.0.0/16",
            "nodePortAddresses[2]: \"localhost\": must be a prefix: write 127.0.0.0/8",
            "nodePortAddresses[3]: \"all\": must be a prefix: write 0.0.0.0/0 and ::/0",
            "bindAddress: \"here\": must be an IP address",
            "iptables.syncPeriod: -1s: must be longer than 0",
            "iptables.minSyncPeriod: -2s: must not be negative",
            "conntrack.tcpEstablishedTimeout: -1s: must not be negative",
            "conntrack.tcpCloseWaitTimeout: -1s: must not be negative",
            "conntrack.udpTimeout: -1s: must not be negative",
            "conntrack.udpStreamTimeout: -1s: must not be negative",
            "conntrack.maxPerCore: -1: must not be negative",
            "conntrack.min: -1: must not be negative",
            "oomScoreAdj: 1001: must be within -1000 to 1000",
            "healthzBindAddress: \"1.2.3.4:0\": the port must be within 1 to 65535",
            "metricsBindAddress: \"fd00::1:x\": must be an address and a port such as 0.0.0.0:10256",
            "clientConnection.burst: -1: must not be negative",
            "configSyncPeriod: -1s: must be longer than 0",
        ],
    );
}

#[test]
fn problems_of_single_values() {
    check(
        "iptables: {syncPeriod: 1s, minSyncPeriod: 2s}",
        &["iptables.minSyncPeriod: 2s: must not be longer than iptables.syncPeriod, 1s"],
    );
    check(
        "clusterCIDR: 10.0.0.0",
        &[
            "clusterCIDR: \"10.0.0.0\": must be a prefix such as 10.244.0.0/16, or one of each family",
        ],
    );
    check(
        "clusterCIDR: 10.0.0.0/8,fd00::/48,11.0.0.0/8",
        &["clusterCIDR: \"10.0.0.0/8,fd00::/48,11.0.0.0/8\": at most one prefix of each family"],
    );
    check(
        "mode: ipvs\nipvs: {udpTimeout: -1s, excludeCIDRs: [x]}",
        &[
            "ipvs.excludeCIDRs[0]: \"x\": must be a prefix such as 10.0.0.0/8",
            "ipvs.udpTimeout: -1s: must not be negative",
        ],
    );
    check(
        "logging: {format: json, vmodule: [{filePattern: a}]}",
        &["logging.vmodule: 1 patterns: only for the text format"],
    );
    check(
        "detectLocalMode: Magic",
        &[
            "detectLocalMode: \"Magic\": must be empty or one of ClusterCIDR, NodeCIDR, \
             BridgeInterface, InterfaceNamePrefix",
        ],
    );
}

#[test]
fn addresses_of_servers() {
    let health = |text: &str| good(&format!("healthzBindAddress: \"{text}\"")).health_address;
    assert_eq!(health(""), "0.0.0.0:10256".parse().ok());
    assert_eq!(health("::1"), "[::1]:10256".parse().ok());
    assert_eq!(health("[::]:1"), "[::]:1".parse().ok());
    let mut off = KubeProxyConfiguration::defaulted();
    off.healthz_bind_address.clear();
    assert_eq!(off.effective().expect("valid").health_address, None);
}

#[test]
fn quantities() {
    for text in ["0", "64Ki", "1.5M", "1e3", "+5", ".5", "5."] {
        good(&format!(
            "logging: {{options: {{text: {{infoBufferSize: \"{text}\"}}}}}}"
        ));
    }
    for text in ["Ki", "5 Ki", "5kb", "1e", ".", "1.2.3", "-"] {
        let rest = format!("logging: {{options: {{text: {{infoBufferSize: \"{text}\"}}}}}}");
        assert!(effective(&rest).is_err(), "{text}");
    }
}
