//! What kind of API server to be.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Settings of a [`MiniApi`](crate::MiniApi).
#[derive(Clone, Debug)]
pub struct Options {
    /// HTTPS, with a certificate authority made for this server; else plain HTTP.
    pub tls: bool,
    /// Bearer token that requests must carry; `None` asks for none.
    pub token: Option<String>,
    /// Accepts client certificates of the server's authority. With this set a request needs either
    /// such a certificate or the token.
    pub client_certificates: bool,
    /// Serves `sendInitialEvents` (default since Kubernetes 1.34); else refuses it with 422, as
    /// servers with the gate `WatchList` off.
    pub streaming_lists: bool,
    /// Most items of one page, whatever limit the client asks for; `None` for no such limit.
    pub page_limit: Option<usize>,
    /// Where to listen; port 0 for a free one.
    pub address: SocketAddr,
    /// Events kept per collection. Watches of older versions get 410, lists likewise. A running
    /// watch that falls further behind is ended, as real servers do, so this must be more than the
    /// largest batch of [`put_all`](crate::MiniApi::put_all).
    pub history: usize,
    /// Time between the bookmarks of a watch. At least a millisecond; real servers send one
    /// about every minute.
    pub bookmarks: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: true,
            token: None,
            client_certificates: false,
            streaming_lists: true,
            page_limit: None,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            history: 20_000,
            bookmarks: Duration::from_secs(60),
        }
    }
}
