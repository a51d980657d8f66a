//! The configuration of kube-proxy 1.36, `KubeProxyConfiguration`: reading, defaults, checks.
//!
//! ```text
//! bytes ──decode──▶ KubeProxyConfiguration ──set_defaults──▶ ──effective──▶ Effective
//!                   (as written)              ▲              (valid, as the program uses it)
//!                                             └── flags, one field each
//! ```
//!
//! # Invariants
//!
//! - Pure: bytes and values in, values out. This crate opens no file and knows no flag.
//! - An [`Effective`] is valid. A check reports every problem at once, with its field.
//! - Sluice accepts what kube-proxy 1.36 accepts, and warns of fields that have no effect.
//! - [`decode`] reads what [`encode`] writes as the same configuration.

mod change;
mod decode;
pub mod defaults;
mod duration;
mod effective;
mod encode;
mod ignored;
mod invalid;
mod problem;
mod strict;
mod types;

pub use change::{Change, change};
pub use decode::{Decoded, decode};
pub use duration::{GoDuration, interval, time};
pub use effective::{
    ApiClient, ConntrackLimits, Effective, IpvsSettings, LogFormat, Mode, Periods,
};
pub use encode::{encode, yaml};
pub use ignored::{IGNORED, feature_gates, warnings};
pub use invalid::Invalid;
pub use problem::{Lines, Problem};
pub use types::{
    API_VERSION, ClientConnection, Conntrack, DetectLocal, FormatOptions, Iptables, Ipvs, KIND,
    KubeProxyConfiguration, Logging, LoggingOptions, Nftables, VmoduleItem, Winkernel,
};
