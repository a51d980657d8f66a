#[path = "../../../../node/src/metrics/tests/request.rs"]
mod request;

use std::collections::BTreeSet;

use prometheus::proto::{MetricFamily, MetricType};

use sluice_ebpf::Ebpf;
use sluice_iptables::Iptables;
use sluice_ipvs::Ipvs;
use sluice_nftables::Nftables;
use sluice_node::Probe;
use sluice_plane::{Drops, TableFill};

use super::*;
use request::request;

/// Name, type and labels of every metric, one line each.
fn shapes(families: &[MetricFamily]) -> Vec<String> {
    let shape = |family: &MetricFamily| {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            other => panic!("{other:?}"),
        };
        let metrics = family.get_metric().iter();
        let labels = metrics.flat_map(|it| it.get_label().iter().map(|it| it.name().to_owned()));
        let labels: BTreeSet<String> = labels.collect();
        let labels: Vec<String> = labels.into_iter().collect();
        format!("{} {kind} {}", family.name(), labels.join(","))
    };
    families
        .iter()
        .map(|it| shape(it).trim().to_owned())
        .collect()
}

/// The metrics of every mode.
const EVERYWHERE: &str = "\
disabled_metrics_total counter
hidden_metrics_total counter
kubeproxy_conntrack_reconciler_deleted_entries_total counter ip_family
kubeproxy_conntrack_reconciler_sync_duration_seconds histogram ip_family
kubeproxy_network_programming_duration_seconds histogram ip_family
kubeproxy_proxy_healthz_total counter code
kubeproxy_proxy_livez_total counter code
kubeproxy_sync_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
kubeproxy_sync_proxy_rules_endpoint_changes_total counter
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge ip_family,traffic_policy
kubeproxy_sync_proxy_rules_service_changes_pending gauge
kubeproxy_sync_proxy_rules_service_changes_total counter
kubernetes_build_info gauge build_date,compiler,git_commit,git_tree_state,git_version,go_version,major,minor,platform
kubernetes_feature_enabled gauge name,stage
process_cpu_seconds_total counter
process_max_fds gauge
process_network_receive_bytes_total counter
process_network_transmit_bytes_total counter
process_open_fds gauge
process_resident_memory_bytes gauge
process_start_time_seconds gauge
process_threads gauge
process_virtual_memory_bytes gauge
process_virtual_memory_max_bytes gauge
registered_metrics_total counter deprecated_version,stability_level
sluice_build_info gauge commit,mode,version
sluice_conntrack_deleted_total counter protocol
sluice_conntrack_entries gauge
sluice_conntrack_entries_limit gauge
sluice_conntrack_failures_total counter reason
sluice_drift_repaired_total counter
sluice_endpoints gauge ip_family
sluice_forwarding gauge ip_family
sluice_frontends gauge ip_family
sluice_health_check_services gauge
sluice_issues gauge reason
sluice_last_sync_succeeded gauge
sluice_netlink_bytes_total counter direction
sluice_netlink_request_duration_seconds histogram
sluice_objects_written_total counter op
sluice_problems gauge
sluice_refused_service_ports gauge
sluice_server_connections gauge
sluice_server_connections_closed_total counter limit
sluice_service_ports gauge ip_family
sluice_service_ports_without_endpoints gauge ip_family
sluice_services gauge
sluice_source_last_event_timestamp_seconds gauge
sluice_source_synced gauge
sluice_sync_total counter result
sluice_unserved gauge ip_family";

/// The metrics with an API server.
const REQUESTS: &str = "\
rest_client_rate_limiter_duration_seconds histogram host,verb
rest_client_request_duration_seconds histogram host,verb
rest_client_request_size_bytes histogram host,verb
rest_client_requests_total counter code,host,method
rest_client_response_size_bytes histogram host,verb";

const NFTABLES: &str = "\
kubeproxy_sync_full_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_partial_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total counter ip_family
kubeproxy_sync_proxy_rules_nftables_sync_failures_total counter ip_family
sluice_dropped_packets_total counter ip_family,reason
sluice_rejected_packets_total counter ip_family,reason";

const IPTABLES: &str = "\
kubeproxy_iptables_ct_state_invalid_dropped_packets_total counter
kubeproxy_iptables_localhost_nodeports_accepted_packets_total counter
kubeproxy_sync_full_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_partial_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_proxy_rules_iptables_last gauge ip_family,table
kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total counter ip_family
kubeproxy_sync_proxy_rules_iptables_restore_failures_total counter ip_family
kubeproxy_sync_proxy_rules_iptables_total gauge ip_family,table";

const IPVS: &str = "\
kubeproxy_sync_proxy_rules_iptables_restore_failures_total counter ip_family";

#[test]
fn every_metric_has_its_name_type_and_labels_from_the_start() {
    let modes = [
        (for_test::<Nftables>(), NFTABLES),
        (for_test::<Iptables>(), IPTABLES),
        (for_test::<Ipvs>(), IPVS),
    ];
    for ((metrics, of_services), own) in modes {
        let mode = of_services.plane().name;
        let mut expected: Vec<&str> = EVERYWHERE.lines().chain(own.lines()).collect();
        expected.sort_unstable();
        assert_eq!(shapes(&metrics.gather()), expected, "{mode}");
        metrics.api_request(&request("10.96.0.1:443", Some(200)));
        expected.extend(REQUESTS.lines());
        expected.sort_unstable();
        assert_eq!(shapes(&metrics.gather()), expected, "{mode}");
    }
    let slis = for_test::<Nftables>().0.gather_slis();
    let expected = [
        "kubernetes_healthcheck gauge name,type",
        "kubernetes_healthchecks_total counter name,status,type",
        "process_start_time_seconds gauge",
    ];
    assert_eq!(shapes(&slis), expected);
}

#[test]
fn buckets_are_those_of_kube_proxy() {
    let bounds = |name: &str| -> Vec<f64> {
        let families = for_test::<Nftables>().0.gather();
        let family = families.iter().find(|it| it.name() == name);
        let metric = &family.expect("registered").get_metric()[0];
        let buckets = metric.get_histogram().get_bucket().iter();
        buckets.map(|it| it.upper_bound()).collect()
    };
    let latencies = bounds("kubeproxy_sync_proxy_rules_duration_seconds");
    assert_eq!(
        (latencies.len(), latencies[0], latencies[14]),
        (15, 0.001, 16.384)
    );
    let programming = bounds("kubeproxy_network_programming_duration_seconds");
    assert_eq!(programming[..5], [0.0, 0.25, 0.5, 1.0, 2.0]);
    assert_eq!(programming[61..64], [59.0, 60.0, 65.0]);
    assert_eq!(
        programming[73..],
        [115.0, 120.0, 150.0, 180.0, 210.0, 240.0, 270.0, 300.0]
    );
}

#[test]
fn the_exposition_is_prometheus_text() {
    let (metrics, of_services) = for_test::<Nftables>();
    metrics.probed(Probe::Healthz, 200);
    metrics.probed(Probe::Livez, 503);
    of_services.netlink_request(100, 20, Duration::from_millis(3));
    of_services.conntrack_deleted(IpFamily::V6, Protocol::Udp);
    let text = metrics.text().expect("complete");
    for line in [
        "# TYPE kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge",
        r#"kubeproxy_proxy_healthz_total{code="200"} 1"#,
        r#"kubeproxy_proxy_healthz_total{code="503"} 0"#,
        r#"kubeproxy_proxy_livez_total{code="503"} 1"#,
        r#"kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.001"} 0"#,
        r#"kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv6"} 1"#,
        r#"kubernetes_feature_enabled{name="ServiceTrafficDistribution",stage=""} 1"#,
        r#"sluice_netlink_bytes_total{direction="sent"} 100"#,
        r#"sluice_netlink_bytes_total{direction="received"} 20"#,
        "sluice_netlink_request_duration_seconds_count 1",
        r#"sluice_issues{reason="FrontendTaken"} 0"#,
        r#"sluice_build_info{commit="",mode="nftables",version="0.1.0"} 1"#,
    ] {
        assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    }
}

/// The number of the process's own metrics depends on the system.
#[test]
fn metrics_about_metrics_and_the_process() {
    let (metrics, _of_services) = for_test::<Nftables>();
    let text = metrics.text().expect("complete");
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|it| it.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        value.trim().parse().expect("a number")
    };
    let registered = r#"registered_metrics_total{deprecated_version="",stability_level="ALPHA"}"#;
    assert!(value(registered) > 50.0);
    assert_eq!(value("hidden_metrics_total "), 0.0);
    assert_eq!(value("disabled_metrics_total "), 0.0);
    assert!(value("process_virtual_memory_max_bytes ") > value("process_virtual_memory_bytes "));
    let start = value("process_start_time_seconds ");
    let slis = metrics.slis_text().expect("complete");
    assert!(
        slis.contains(&format!("process_start_time_seconds {start}\n")),
        "{slis}"
    );
}

/// The cells of each row of the tables in a page whose first cell is code, without the backticks.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|it| it.starts_with("| `"));
    let cells = rows.map(|it| it.trim_matches('|').split('|').map(str::trim).collect());
    cells.collect()
}

/// The tables in the documentation have exactly the metrics that exist, with type and labels.
#[test]
fn every_metric_is_documented() {
    let page = include_str!("../../../../../docs/metrics.md");
    let documented: BTreeSet<String> = rows(page)
        .iter()
        .map(|row| {
            let [name, kind, labels, meaning] = row[..] else {
                panic!("{row:?}");
            };
            assert!(!meaning.is_empty(), "{name}");
            let mut labels: Vec<&str> = labels.split(", ").collect();
            labels.sort_unstable();
            let name = name.trim_matches('`');
            format!("{name} {kind} {}", labels.join(","))
                .trim()
                .to_owned()
        })
        .collect();
    // Registered only where connections are counted (`connections/collector.rs`) or policies enforced, and without a series
    // while every Service has endpoints, or before the programs were asked.
    let sometimes = [
        "sluice_network_policy_in_force gauge",
        "sluice_network_policy_isolated_pod_addresses gauge",
        "sluice_network_policy_issues gauge",
        "sluice_network_policy_packets_total counter `direction`,`outcome`",
        "sluice_network_policy_peers gauge",
        "sluice_network_policy_pod_addresses gauge",
        "sluice_network_policy_policies gauge",
        "sluice_network_policy_policy_reports_total counter `direction`,`outcome`,`policy`",
        "sluice_network_policy_repairs_total counter",
        "sluice_network_policy_reports_total counter `direction`,`namespace`,`outcome`",
        "sluice_forged_packets_total counter ip_family,reason",
        "sluice_service_without_endpoints_info gauge ip_family,namespace,port,protocol,service",
        "sluice_service_connections_total counter ip_family,namespace,port,protocol,service",
        "sluice_endpoint_connections_total counter endpoint,namespace,port,protocol,service",
        "sluice_endpoint_active_connections gauge endpoint,namespace,port,protocol,service",
    ];
    let mut there: BTreeSet<String> = sometimes.map(str::to_owned).into();
    for (metrics, of_services) in [
        for_test::<Nftables>(),
        for_test::<Iptables>(),
        for_test::<Ipvs>(),
        for_test::<Ebpf>(),
    ] {
        metrics.api_request(&request("host", Some(200)));
        of_services.show_tables(Arc::new(|| {
            let fill = TableFill {
                table: "FLOWS",
                entries: 1,
                capacity: 2,
                drops: Some(Drops::default()),
                ..TableFill::default()
            };
            vec![fill]
        }));
        metrics.text().expect("complete");
        let slis = metrics.gather_slis();
        there.extend(shapes(&metrics.gather()));
        there.extend(shapes(&slis));
    }
    let differing: Vec<&String> = documented.symmetric_difference(&there).collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn every_issue_is_documented() {
    let page = include_str!("../../../../../docs/reference/issues.md");
    let documented: Vec<&str> = rows(page)
        .iter()
        .map(|it| it[0].trim_matches('`'))
        .collect();
    assert_eq!(documented, sluice_plan::issue::Kind::NAMES);
}
