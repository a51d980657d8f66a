//! The help text of each metric.

/// One line per metric: name and help.
pub(super) const HELP: &str = "\
kubeproxy_conntrack_reconciler_deleted_entries_total Conntrack entries deleted because their endpoint is gone.
kubeproxy_conntrack_reconciler_sync_duration_seconds How long walks through the conntrack table took.
kubeproxy_iptables_ct_state_invalid_dropped_packets_total Packets dropped because conntrack found them invalid.
kubeproxy_iptables_localhost_nodeports_accepted_packets_total Packets to NodePorts on loopback addresses, the first of each connection.
kubeproxy_network_programming_duration_seconds From the change of a pod or Service, as its EndpointSlice says, to the rules.
kubeproxy_sync_full_proxy_rules_duration_seconds How long syncs took that read the kernel and compared everything.
kubeproxy_sync_partial_proxy_rules_duration_seconds How long syncs took that wrote a difference.
kubeproxy_sync_proxy_rules_duration_seconds How long syncs took, failed ones included.
kubeproxy_sync_proxy_rules_endpoint_changes_pending EndpointSlices that changed since the last sync that succeeded.
kubeproxy_sync_proxy_rules_endpoint_changes_total Changes of EndpointSlices received.
kubeproxy_sync_proxy_rules_iptables_last Rules written by the last sync that wrote any.
kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total Syncs with differences that failed: a full one followed.
kubeproxy_sync_proxy_rules_iptables_restore_failures_total Full syncs that failed.
kubeproxy_sync_proxy_rules_iptables_total Rules in the table.
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds When a sync was last requested, seconds since the epoch.
kubeproxy_sync_proxy_rules_last_timestamp_seconds When a sync last succeeded, seconds since the epoch.
kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total Deferred deletions that failed; here no deletion is deferred.
kubeproxy_sync_proxy_rules_nftables_sync_failures_total Syncs that failed.
kubeproxy_sync_proxy_rules_no_local_endpoints_total Service ports whose clients are dropped: policy Local and no endpoint on this node.
kubeproxy_sync_proxy_rules_service_changes_pending Services that changed since the last sync that succeeded.
kubeproxy_sync_proxy_rules_service_changes_total Changes of Services received.
sluice_conntrack_deleted_total Conntrack entries deleted because their endpoint is gone.
sluice_conntrack_entries Entries of the connection tracking table in use.
sluice_conntrack_entries_limit Most entries of the connection tracking table.
sluice_conntrack_failures_total Connections that got no entry, and entries removed before their time, because the table was full or two connections met.
sluice_drift_repaired_total Syncs that repaired what other programs had changed.
sluice_dropped_packets_total Packets to Services that rules dropped, the first of each attempt to connect.
sluice_endpoint_active_connections Established connections of an endpoint of a service port, in the ipvs mode.
sluice_endpoint_connections_total Connections that an endpoint of a service port got since the agent started.
sluice_endpoints Endpoints in use, once per service port.
sluice_forged_packets_total Packets that are not believed to be of a connection whose addresses they have. They pass.
sluice_forwarding 1 while the kernel forwards packets of the family.
sluice_frontends Addresses and ports that clients connect to.
sluice_health_check_services Services whose health check node port is served.
sluice_issues Objects that contradict each other or cannot be served, by reason.
sluice_last_sync_succeeded 1 when the last sync succeeded, 0 when it failed or there was none.
sluice_map_drops_total Packets of new connections that found no room in a map of the ebpf mode.
sluice_map_entries Entries of a map of the ebpf mode, as of the last look.
sluice_map_entries_limit Most entries of a map of the ebpf mode.
sluice_netlink_bytes_total Bytes exchanged with nf_tables in transactions.
sluice_netlink_request_duration_seconds From sending a transaction to the kernel's answer.
sluice_objects_written_total Objects written to the kernel.
sluice_problems Files and objects that sources could not read.
sluice_refused_service_ports Service ports that the kernel refuses.
sluice_rejected_packets_total Packets to Services that rules rejected, the first of each attempt to connect.
sluice_service_connections_total Connections to a service port since the agent started.
sluice_service_ports_without_endpoints Service ports that no endpoint anywhere answers.
sluice_service_without_endpoints_info Always 1; the labels name a service port that no endpoint answers, 20 of them at most.
sluice_service_ports Service ports planned.
sluice_services Services in the cluster state.
sluice_source_last_event_timestamp_seconds When a source last delivered events, seconds since the epoch.
sluice_source_synced 1 when the source has delivered its first complete list.
sluice_sync_total Syncs by result.
sluice_unserved 1 while a family of this machine cannot be served and Services have it.
";

/// The help of a metric, which must be in the table.
pub(super) fn help(name: &str) -> &'static str {
    sluice_node::metrics::help(HELP, name)
}
