//! Values of fields that are not set: `SetDefaults_KubeProxyConfiguration` of
//! `pkg/proxy/apis/config/v1alpha1/defaults.go`.

use std::net::{IpAddr, SocketAddr};

use crate::duration::GoDuration;
use crate::types::{API_VERSION, FormatOptions, KIND, KubeProxyConfiguration};

/// Port of the health server where only an address is given.
pub const HEALTH_PORT: u16 = 10256;

/// Port of the metrics server where only an address is given.
pub const METRICS_PORT: u16 = 10249;

/// The content type kube-proxy asks for.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

impl KubeProxyConfiguration {
    /// The configuration in which nothing is set.
    pub fn defaulted() -> Self {
        let mut config = Self::default();
        config.set_defaults();
        config
    }

    /// Fills in the fields that are not set. A duration of 0 counts as not set, unless its field is
    /// an `Option`. Idempotent.
    ///
    /// `minSyncPeriod` stays 0, where kube-proxy has 1 s: its changes cost in proportion to everything, ours do not.
    pub fn set_defaults(&mut self) {
        text(&mut self.api_version, API_VERSION);
        text(&mut self.kind, KIND);
        text(&mut self.bind_address, "0.0.0.0");
        let (health, metrics) = default_hosts(&self.bind_address);
        server(&mut self.healthz_bind_address, health, HEALTH_PORT);
        server(&mut self.metrics_bind_address, metrics, METRICS_PORT);
        self.oom_score_adj.get_or_insert(-999);

        let iptables = &mut self.iptables;
        iptables.masquerade_bit.get_or_insert(14);
        iptables.localhost_node_ports.get_or_insert(true);
        duration(&mut iptables.sync_period, 30);
        let nftables = &mut self.nftables;
        nftables.masquerade_bit.get_or_insert(14);
        duration(&mut nftables.sync_period, 30);
        duration(&mut self.ipvs.sync_period, 30);

        let conntrack = &mut self.conntrack;
        conntrack.max_per_core.get_or_insert(32 * 1024);
        conntrack.min.get_or_insert(128 * 1024);
        let hours = |it: u32| GoDuration::from_secs(it * 3600);
        conntrack.tcp_established_timeout.get_or_insert(hours(24));
        conntrack.tcp_close_wait_timeout.get_or_insert(hours(1));
        duration(&mut self.config_sync_period, 15 * 60);

        let client = &mut self.client_connection;
        text(&mut client.content_type, PROTOBUF);
        if client.qps == 0.0 {
            client.qps = 5.0;
        }
        if client.burst == 0 {
            client.burst = 10;
        }
        text(&mut self.logging.format, "text");
        duration(&mut self.logging.flush_frequency, 5);
        let buffer = |it: &mut FormatOptions| text(&mut it.info_buffer_size, "0");
        buffer(&mut self.logging.options.text);
        buffer(&mut self.logging.options.json);
    }
}

fn text(field: &mut String, default: &str) {
    if field.is_empty() {
        default.clone_into(field);
    }
}

fn duration(field: &mut GoDuration, seconds: u32) {
    if field.is_zero() {
        *field = GoDuration::from_secs(seconds);
    }
}

/// Default hosts of the health and the metrics server: of the family of the node's address.
fn default_hosts(bind_address: &str) -> (&'static str, &'static str) {
    let is_v4 = |it: IpAddr| it.to_canonical().is_ipv4();
    if bind_address.parse().is_ok_and(is_v4) {
        ("0.0.0.0", "127.0.0.1")
    } else {
        ("::", "::1")
    }
}

fn server(field: &mut String, host: &str, port: u16) {
    text(field, host);
    *field = with_port(field, port);
}

/// Adds the port to an IP address that has none. Any other text stays as it is.
pub fn with_port(address: &str, port: u16) -> String {
    let bare = address
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'));
    match bare.unwrap_or(address).parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests;
