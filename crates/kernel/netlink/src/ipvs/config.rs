//! Timeouts of a network namespace.

use crate::attr::AttrWriter;

use super::uapi::{
    IPVS_CMD_ATTR_TIMEOUT_TCP, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, IPVS_CMD_ATTR_TIMEOUT_UDP,
};

/// Idle seconds after which IPVS forgets a connection; 0 leaves the kernel's setting as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Established TCP connections; the kernel's default is 900.
    pub tcp: u32,
    /// TCP connections after the first FIN; the kernel's default is 120.
    pub tcp_fin: u32,
    /// UDP; the kernel's default is 300.
    pub udp: u32,
}

impl Timeouts {
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.u32_ne(IPVS_CMD_ATTR_TIMEOUT_TCP, self.tcp);
        writer.u32_ne(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, self.tcp_fin);
        writer.u32_ne(IPVS_CMD_ATTR_TIMEOUT_UDP, self.udp);
    }
}
