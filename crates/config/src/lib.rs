//! The configuration of kube-proxy 1.36, `KubeProxyConfiguration`: reading, defaults, validation,
//! meaning.
//!
//! ```text
//! bytes ──decode──▶ KubeProxyConfiguration ──set_defaults──▶ ──effective──▶ Effective
//!                   (what was written)        ▲              (valid, what the program uses)
//!                                             └── flags, one field each
//! ```
//!
//! # Invariants
//!
//! - Pure: bytes and values in, values out. Nobody here opens a file or knows a flag.
//! - An [`Effective`] in hand is valid. Every problem is told at once, with its field.
//! - What kube-proxy 1.36 takes is taken; what Sluice does not do with it is said in a warning.
//! - What is written ([`encode`]) is read back as the same.

mod change;
mod decode;
pub mod defaults;
mod duration;
mod effective;
mod encode;
mod gates;
mod ignored;
mod problem;
mod strict;
mod types;

pub use change::{Change, change};
pub use decode::{Decoded, decode};
pub use duration::GoDuration;
pub use effective::{
    ApiClient, ConntrackLimits, Effective, IpvsSettings, LogFormat, Mode, NotBuilt, Periods,
};
pub use encode::encode;
pub use ignored::warnings;
pub use problem::{Lines, Problem};
pub use types::{
    API_VERSION, ClientConnection, Conntrack, DetectLocal, FormatOptions, Iptables, Ipvs, KIND,
    KubeProxyConfiguration, Logging, LoggingOptions, Nftables, VmoduleItem, Winkernel,
};
