use super::*;

#[test]
fn the_defaults_of_kube_proxy() {
    let it = KubeProxyConfiguration::defaulted();
    assert_eq!(it.bind_address, "0.0.0.0");
    assert_eq!(it.healthz_bind_address, "0.0.0.0:10256");
    assert_eq!(it.metrics_bind_address, "127.0.0.1:10249");
    assert_eq!(it.oom_score_adj, Some(-999));
    assert_eq!(it.iptables.masquerade_bit, Some(14));
    assert_eq!(it.iptables.localhost_node_ports, Some(true));
    assert_eq!(it.iptables.sync_period.to_string(), "30s");
    assert_eq!(it.iptables.min_sync_period.to_string(), "0s");
    assert_eq!(it.nftables.masquerade_bit, Some(14));
    assert_eq!(it.nftables.sync_period.to_string(), "30s");
    assert_eq!(it.nftables.min_sync_period.to_string(), "0s");
    assert_eq!(it.ipvs.sync_period.to_string(), "30s");
    assert_eq!(it.ipvs.min_sync_period.to_string(), "0s");
    assert_eq!(it.conntrack.max_per_core, Some(32_768));
    assert_eq!(it.conntrack.min, Some(131_072));
    let text = |it: Option<GoDuration>| it.map(|it| it.to_string());
    assert_eq!(
        text(it.conntrack.tcp_established_timeout).as_deref(),
        Some("24h0m0s")
    );
    assert_eq!(
        text(it.conntrack.tcp_close_wait_timeout).as_deref(),
        Some("1h0m0s")
    );
    assert_eq!(it.config_sync_period.to_string(), "15m0s");
    assert_eq!(it.client_connection.content_type, PROTOBUF);
    assert_eq!(
        (it.client_connection.qps, it.client_connection.burst),
        (5.0, 10)
    );
    assert_eq!(it.logging.format, "text");
    assert_eq!(it.logging.flush_frequency.to_string(), "5s");
    assert_eq!(it.node_port_addresses, None);
    assert_eq!(it.mode, "");
}

#[test]
fn zero_of_a_pointer_is_a_value() {
    let mut it = KubeProxyConfiguration::default();
    it.conntrack.max_per_core = Some(0);
    it.conntrack.tcp_established_timeout = Some(GoDuration(0));
    it.iptables.masquerade_bit = Some(0);
    it.iptables.localhost_node_ports = Some(false);
    it.oom_score_adj = Some(0);
    it.set_defaults();
    assert_eq!(it.conntrack.max_per_core, Some(0));
    assert_eq!(it.conntrack.tcp_established_timeout, Some(GoDuration(0)));
    assert_eq!(it.iptables.masquerade_bit, Some(0));
    assert_eq!(it.iptables.localhost_node_ports, Some(false));
    assert_eq!(it.oom_score_adj, Some(0));
}

#[track_caller]
fn check(bind: &str, health: &str, expected: (&str, &str)) {
    let mut it = KubeProxyConfiguration {
        bind_address: bind.to_owned(),
        healthz_bind_address: health.to_owned(),
        metrics_bind_address: health.to_owned(),
        ..KubeProxyConfiguration::default()
    };
    it.set_defaults();
    let found = (&*it.healthz_bind_address, &*it.metrics_bind_address);
    assert_eq!(found, expected, "{bind:?} {health:?}");
}

#[test]
fn addresses_of_servers() {
    check("", "", ("0.0.0.0:10256", "127.0.0.1:10249"));
    check("192.0.2.1", "", ("0.0.0.0:10256", "127.0.0.1:10249"));
    check("::", "", ("[::]:10256", "[::1]:10249"));
    check("fd00::1", "", ("[::]:10256", "[::1]:10249"));
    check("here", "", ("[::]:10256", "[::1]:10249"));
    check("::", "0.0.0.0", ("0.0.0.0:10256", "0.0.0.0:10249"));
    check("", "::1", ("[::1]:10256", "[::1]:10249"));
    check("", "[::1]", ("[::1]:10256", "[::1]:10249"));
    check("", "1.2.3.4:5", ("1.2.3.4:5", "1.2.3.4:5"));
    check("", "nonsense", ("nonsense", "nonsense"));
}
