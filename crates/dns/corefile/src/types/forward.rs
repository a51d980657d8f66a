//! `forward`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::Name;

/// `forward FROM TO...`. The reader sets CoreDNS's defaults, `Default` does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    /// Names below this zone are forwarded.
    pub from: Name,
    /// Upstreams, 1 to 15. Files like resolv.conf are replaced by the name servers in them.
    pub to: Vec<Upstream>,
    /// Names below these zones are not forwarded.
    pub except: Vec<Name>,
    /// The protocol towards the upstream.
    pub protocol: ForwardProtocol,
    /// A connection that was idle for this time is closed. CoreDNS's default: 10 s.
    pub expire: Duration,
    /// A connection is closed at this age even while it is in use; `None`: at no age.
    pub max_age: Option<Duration>,
    /// Idle connections that are kept for each upstream; `None`: no bound.
    pub max_idle_conns: Option<NonZeroUsize>,
    /// Failed health checks in a row after which an upstream is down; 0: never, and no health checks.
    /// CoreDNS's default: 2.
    pub max_fails: u32,
    /// Attempts for one query, over all upstreams; 0: only time bounds them.
    pub max_connect_attempts: u32,
    /// For upstreams with [`UpstreamTransport::Tls`].
    pub tls: ForwardTls,
    /// The order in which upstreams are tried.
    pub policy: Policy,
    /// How an upstream that failed is tried.
    pub health_check: HealthCheck,
    /// Queries under way at the same time, beyond which queries are refused; `None`: no bound.
    pub max_concurrent: Option<NonZeroUsize>,
    /// With one of these codes the next `forward` of the block is asked.
    pub next: Vec<ResponseCode>,
    /// An answer NOERROR without records counts as one of `next`.
    pub next_on_nodata: bool,
    /// SERVFAIL at once while all upstreams are down; otherwise a random one is asked.
    pub failfast_all_unhealthy_upstreams: bool,
    /// With one of these codes the next upstream is asked. Never NOERROR.
    pub failover: Vec<ResponseCode>,
}

/// One upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// Address and port; ports default to 53, with TLS to 853.
    pub address: SocketAddr,
    /// The interface of a link-local address, `eth0` in `fe80::1%eth0`.
    pub interface: Option<String>,
    /// How it is spoken to.
    pub transport: UpstreamTransport,
}

/// The transport of one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamTransport {
    /// UDP and TCP.
    Dns,
    /// DNS over TLS (RFC 7858).
    Tls {
        /// Name that the server must prove: `tls_servername`, or what follows `%` in the address;
        /// `None`: the address itself.
        server_name: Option<String>,
    },
}

/// The transport to upstreams without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardProtocol {
    /// The transport of the client. After a truncated answer the client itself retries over TCP.
    #[default]
    AsAsked,
    /// `force_tcp`: TCP always.
    Tcp,
    /// `prefer_udp`: UDP, and TCP when the answer was truncated.
    PreferUdp,
}

/// `tls`: files in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardTls {
    /// Certificate authorities of upstreams; `None`: the system's.
    pub authority: Option<PathBuf>,
    /// The certificate that upstreams are shown.
    pub client: Option<ClientCertificate>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// `policy`: the order in which upstreams are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// At random.
    #[default]
    Random,
    /// In turn.
    RoundRobin,
    /// In the order of the Corefile.
    Sequential,
}

/// `health_check DURATION [no_rec] [domain FQDN]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Time between two checks of an upstream that failed. CoreDNS's default: 500 ms.
    pub interval: Duration,
    /// The flag RD of the query. CoreDNS's default: set.
    pub recursion_desired: bool,
    /// The name of the query, whose type is NS. CoreDNS's default: the root.
    pub domain: Name,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            recursion_desired: true,
            domain: Name::root(),
        }
    }
}
