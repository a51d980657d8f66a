use super::*;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn read(rest: &str) -> Decoded {
    decode(format!("{HEAD}{rest}").as_bytes()).expect("readable")
}

#[track_caller]
fn ignores(rest: &str, expected: &[&str]) -> KubeProxyConfiguration {
    let decoded = read(rest);
    let found: Vec<String> = decoded.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
    decoded.config
}

#[track_caller]
fn refuses(text: &str, expected: &[&str]) {
    let problems = decode(text.as_bytes()).expect_err("refused");
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn refuses_rest(rest: &str, expected: &[&str]) {
    refuses(&format!("{HEAD}{rest}"), expected);
}

#[test]
fn what_is_not_set_is_zero() {
    let zero = KubeProxyConfiguration {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        ..KubeProxyConfiguration::default()
    };
    assert_eq!(ignores("", &[]), zero);
    let nulls = "mode: null\niptables: ~\nnodePortAddresses:\nconntrack: {min: null}\n";
    assert_eq!(ignores(nulls, &[]), zero);
}

#[test]
fn values_have_their_types() {
    let config = ignores(
        "conntrack: {maxPerCore: 0, tcpCloseWaitTimeout: 1h30m}\n\
         clientConnection: {qps: 2.5, burst: 7}\n\
         nodePortAddresses: []\n\
         featureGates: {NFTablesProxyMode: true}\n\
         logging: {flushFrequency: 5000000000, options: {text: {infoBufferSize: 64}}, \
         vmodule: [{filePattern: proxier, verbosity: 4}]}\n",
        &[],
    );
    assert_eq!(config.conntrack.max_per_core, Some(0));
    assert_eq!(config.conntrack.min, None);
    let timeout = config.conntrack.tcp_close_wait_timeout;
    assert_eq!(timeout.map(|it| it.to_string()).as_deref(), Some("1h30m0s"));
    assert_eq!(config.client_connection.qps, 2.5);
    assert_eq!(config.node_port_addresses, Some(Vec::new()));
    assert_eq!(config.logging.flush_frequency.to_string(), "5s");
    assert_eq!(config.logging.options.text.info_buffer_size, "64");
    assert_eq!(config.logging.vmodule[0].verbosity, 4);
}

#[test]
fn strict_decoding_fails_and_lenient_tells() {
    let config = ignores(
        "udpIdleTimeout: 250ms\nMode: ipvs\nmode: iptables\niptables:\n  syncPeriod: 1s\n  \
         syncperiod: 2s\n  syncPeriod: 3s\nmode: nftables\n",
        &[
            "line 3: udpIdleTimeout: unknown field",
            "line 4: Mode: unknown field, the name is \"mode\"",
            "line 8: iptables.syncperiod: unknown field, the name is \"syncPeriod\"",
            "line 9: iptables.syncPeriod: the key is there twice, the last one counts",
            "line 10: mode: the key is there twice, the last one counts",
        ],
    );
    assert_eq!(config.mode, "nftables");
    assert_eq!(config.iptables.sync_period.to_string(), "3s");
}

#[test]
fn anchors_and_merges() {
    let config = ignores(
        "iptables: &periods {syncPeriod: 9s}\nnftables: *periods\nipvs: {<<: *periods, x: 1}\n",
        &["line 5: ipvs.x: unknown field"],
    );
    assert_eq!(config.nftables.sync_period.to_string(), "9s");
    assert_eq!(config.ipvs.sync_period.to_string(), "9s");
}

#[test]
fn wrong_types_are_told_at_once() {
    refuses_rest(
        "mode: 5\niptables: {syncPeriod: 30, masqueradeBit: \"14\"}\nnodePortAddresses: primary\n\
         configSyncPeriod: 15 minutes\nbindAddressHardFail: maybe\nconntrack: {min: 3000000000}\n",
        &[
            "line 3: mode: expected a text (write it in quotes), found the number 5",
            "line 4: iptables.syncPeriod: expected a text (write it in quotes), found the number 30",
            "line 4: iptables.masqueradeBit: invalid type: string \"14\", expected i32",
            "line 5: nodePortAddresses: expected a list, found the text \"primary\"",
            "line 6: configSyncPeriod: \"15 minutes\" is no duration such as 30s, 1m30s, 100ms",
            "line 7: bindAddressHardFail: expected true or false, found the text \"maybe\"",
            "line 8: conntrack.min: invalid value: integer `3000000000`, expected i32",
        ],
    );
}

#[test]
fn another_kind_of_object() {
    refuses(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
        &[
            "line 1: apiVersion: \"kubelet.config.k8s.io/v1beta1\" is not \
             kubeproxy.config.k8s.io/v1alpha1",
            "line 2: kind: \"KubeletConfiguration\" is not KubeProxyConfiguration",
        ],
    );
    refuses(
        "mode: nftables\n",
        &[
            "apiVersion: is required: kubeproxy.config.k8s.io/v1alpha1",
            "kind: is required: KubeProxyConfiguration",
        ],
    );
}

#[test]
fn what_is_no_configuration() {
    refuses("", &["is empty: expected a KubeProxyConfiguration"]);
    refuses(
        "- a\n",
        &["line 1: expected a KubeProxyConfiguration, found no mapping"],
    );
    refuses("a\0b", &["line 1: control character 0x00"]);
    let problems = decode(b"mode: x\nkind: \xff").expect_err("refused");
    assert_eq!(problems[0].to_string(), "line 2: not UTF-8");
    let problems = decode(b"kind: [\nmode").expect_err("refused");
    assert!(problems[0].line.is_some(), "{problems:?}");
    let problems = decode(&vec![b' '; MAX_BYTES + 1]).expect_err("refused");
    assert_eq!(problems[0].to_string(), "is larger than 1 MiB");
}

#[test]
fn only_the_first_document_counts() {
    let two = format!("{HEAD}mode: nftables\n---\n{HEAD}mode: ipvs\n");
    let decoded = decode(two.as_bytes()).expect("readable");
    assert_eq!(decoded.config.mode, "nftables");
    assert_eq!(decoded.ignored, []);
}

#[test]
fn json_is_read() {
    let text = "{\"kind\": \"KubeProxyConfiguration\",\n\
                \"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\",\n\"mode\": \"ipvs\", \"x\": 1}";
    let decoded = decode(text.as_bytes()).expect("readable");
    assert_eq!(decoded.config.mode, "ipvs");
    assert_eq!(decoded.ignored[0].to_string(), "line 3: x: unknown field");
    let flow = "{kind: KubeProxyConfiguration, apiVersion: kubeproxy.config.k8s.io/v1alpha1}";
    assert!(decode(flow.as_bytes()).is_ok());
}

#[test]
fn fields_have_lines() {
    let lines = read("mode: ipvs\nipvs:\n  scheduler: rr\n  excludeCIDRs:\n  - 10.0.0.0/8\n").lines;
    assert_eq!(lines.of("mode"), Some(3));
    assert_eq!(lines.of("ipvs.scheduler"), Some(5));
    assert_eq!(lines.of("ipvs.excludeCIDRs[0]"), Some(6));
    assert_eq!(lines.of("ipvs.tcpTimeout"), Some(4));
    assert_eq!(lines.of("conntrack.min"), None);
}
