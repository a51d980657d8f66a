//! The help text of each metric of the runtime.

/// One line per metric: name and help.
pub(super) const HELP: &str = "\
disabled_metrics_total Metrics that were disabled; here none can be.
hidden_metrics_total Metrics that were hidden because they are deprecated; here none is.
kubernetes_build_info Always 1; the labels say what was built.
kubernetes_feature_enabled Feature gates: 1 when it is on.
kubernetes_healthcheck The last result of a health check: 1 when it succeeded.
kubernetes_healthchecks_total Results of health checks.
process_cpu_seconds_total CPU time of the process, user and system.
process_max_fds Limit of open file descriptors.
process_network_receive_bytes_total Bytes of IPv4 packets received in the process's network namespace.
process_network_transmit_bytes_total Bytes of IPv4 packets sent in the process's network namespace.
process_open_fds Open file descriptors.
process_resident_memory_bytes Memory in use.
process_start_time_seconds When the process started, seconds since the epoch.
process_threads Threads of the process.
process_virtual_memory_bytes Address space in use.
process_virtual_memory_max_bytes Limit of the address space.
registered_metrics_total Metrics that are registered, by stability and the version that deprecated them.
rest_client_rate_limiter_duration_seconds How long requests to the API server waited for their turn.
rest_client_request_duration_seconds From a request to the API server to the head of its answer.
rest_client_request_size_bytes Bodies of requests to the API server.
rest_client_requests_total Requests to the API server by status, method and host.
rest_client_response_size_bytes Bodies of the API server's answers; a watch has none.
kubeproxy_proxy_healthz_total Answers of /healthz by status.
kubeproxy_proxy_livez_total Answers of /livez by status.
sluice_build_info Always 1; the labels say what was built.
sluice_server_connections Open connections to the servers of this process.
sluice_server_connections_closed_total Connections to these servers that were closed or refused because a limit was reached.
";

/// The help of a metric in lines of name and help, which must have it.
pub fn help(lines: &'static str, name: &str) -> &'static str {
    let of_name = |line: &'static str| line.strip_prefix(name)?.strip_prefix(' ');
    let help = lines.lines().find_map(of_name);
    help.expect("the table has every metric, as tests of all modes show")
}
