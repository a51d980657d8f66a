//! Which certificates are believed, by every client of ours that may choose its authorities.

mod own_authority;

pub use own_authority::{OwnAuthority, TrustError};
