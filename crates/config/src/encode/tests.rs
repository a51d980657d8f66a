use proptest::prelude::*;

use super::*;
use crate::{API_VERSION, GoDuration, KIND, VmoduleItem, decode};

#[test]
fn the_beginning_of_a_file() {
    let text = encode(&KubeProxyConfiguration::defaulted());
    let lines: Vec<&str> = text.lines().take(10).collect();
    assert_eq!(
        lines,
        [
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1",
            "bindAddress: \"0.0.0.0\"",
            "bindAddressHardFail: false",
            "clientConnection:",
            "  acceptContentTypes: \"\"",
            "  burst: 10",
            "  contentType: application/vnd.kubernetes.protobuf",
            "  kubeconfig: \"\"",
            "  qps: 5",
            "clusterCIDR: \"\"",
        ]
    );
    assert!(text.contains("\nnodePortAddresses: null\n"), "{text}");
}

fn texts() -> impl Strategy<Value = String> {
    let hard = [
        "yes",
        "0x1F",
        "1e3",
        "~",
        "- a",
        "a: b",
        "#",
        "1:30",
        "\u{85}\u{feff}",
        ".inf",
    ];
    prop_oneof![
        any::<String>(),
        "[a-z0-9.:/-]{0,12}",
        proptest::sample::select(hard.to_vec()).prop_map(str::to_owned)
    ]
}

fn durations() -> impl Strategy<Value = GoDuration> {
    (-i64::MAX..=i64::MAX).prop_map(GoDuration)
}

prop_compose! {
    fn configurations()(
        text in texts(),
        list in proptest::option::of(proptest::collection::vec(texts(), 0..4)),
        gates in proptest::collection::btree_map(texts(), any::<bool>(), 0..4),
        number in proptest::option::of(any::<i32>()),
        time in durations(),
        qps in -1e6_f32..1e6,
        flag in any::<bool>(),
        patterns in proptest::collection::vec((texts(), any::<u32>()), 0..3),
        defaulted in any::<bool>(),
    ) -> KubeProxyConfiguration {
        let mut it = KubeProxyConfiguration {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            ..KubeProxyConfiguration::default()
        };
        it.hostname_override.clone_from(&text);
        it.logging.options.json.info_buffer_size = text;
        it.node_port_addresses.clone_from(&list);
        it.ipvs.exclude_cidrs = list;
        it.feature_gates = gates;
        it.oom_score_adj = number;
        it.conntrack.min = number;
        it.conntrack.tcp_close_wait_timeout = number.map(|_| time);
        it.config_sync_period = time;
        it.logging.flush_frequency = time;
        it.client_connection.qps = qps;
        it.bind_address_hard_fail = flag;
        let item = |(file_pattern, verbosity)| VmoduleItem { file_pattern, verbosity };
        it.logging.vmodule = patterns.into_iter().map(item).collect();
        if defaulted {
            it.set_defaults();
        }
        it
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(config in configurations()) {
        let text = encode(&config);
        let decoded = decode(text.as_bytes());
        prop_assert!(decoded.is_ok(), "{decoded:?}\n{text}");
        let decoded = decoded.expect("looked at");
        prop_assert_eq!(&decoded.config, &config, "{}", text);
        prop_assert_eq!(decoded.ignored, []);
    }

    #[test]
    fn defaults_twice_are_defaults_once(config in configurations()) {
        let mut once = config;
        once.set_defaults();
        let mut twice = once.clone();
        twice.set_defaults();
        prop_assert_eq!(once, twice);
    }
}
