//! What counts for all virtual servers of a network namespace.

use std::fmt;

use crate::attr::{AttrWriter, Attrs};

use super::uapi::{
    IPVS_CMD_ATTR_TIMEOUT_TCP, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, IPVS_CMD_ATTR_TIMEOUT_UDP,
    IPVS_INFO_ATTR_CONN_TAB_SIZE, IPVS_INFO_ATTR_VERSION,
};

/// After how many idle seconds a connection is forgotten. When they are set, 0 leaves the one that
/// is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Established connections of TCP; 900 unless somebody changed it.
    pub tcp: u32,
    /// Connections of TCP after the first FIN; 120 unless somebody changed it.
    pub tcp_fin: u32,
    /// UDP; 300 unless somebody changed it.
    pub udp: u32,
}

impl Timeouts {
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.u32_ne(IPVS_CMD_ATTR_TIMEOUT_TCP, self.tcp);
        writer.u32_ne(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, self.tcp_fin);
        writer.u32_ne(IPVS_CMD_ATTR_TIMEOUT_UDP, self.udp);
    }
}

/// The kernel's IPVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major, minor and patch level, as `ipvsadm` prints them.
    pub number: [u8; 3],
    /// Buckets of the table of connections.
    pub connection_table_size: u32,
}

impl Version {
    pub(super) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let [_, major, minor, patch] = attrs.find(IPVS_INFO_ATTR_VERSION)?.u32_ne()?.to_be_bytes();
        Some(Self {
            number: [major, minor, patch],
            connection_table_size: attrs.find(IPVS_INFO_ATTR_CONN_TAB_SIZE)?.u32_ne()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.number;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        let mut writer = AttrWriter::new();
        writer.u32_ne(IPVS_INFO_ATTR_VERSION, 0x01_02_01);
        writer.u32_ne(IPVS_INFO_ATTR_CONN_TAB_SIZE, 4096);
        let version = Version::decode(&Attrs::new(writer.as_bytes())).unwrap();
        assert_eq!(version.to_string(), "1.2.1");
        assert_eq!(version.connection_table_size, 4096);
    }
}
