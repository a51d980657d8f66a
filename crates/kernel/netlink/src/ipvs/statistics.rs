//! Counters.

use crate::attr::Attrs;

use super::uapi::{
    IPVS_STATS_ATTR_CONNS, IPVS_STATS_ATTR_INBYTES, IPVS_STATS_ATTR_INPKTS,
    IPVS_STATS_ATTR_OUTBYTES, IPVS_STATS_ATTR_OUTPKTS,
};

/// What went through a virtual server, or to a real one, since it was made. The kernel adds it up
/// every two seconds (`ip_vs_est.c`): what is newer is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that were scheduled.
    pub connections: u64,
    /// Packets of clients.
    pub packets_in: u64,
    /// Packets of real servers, as far as they pass here.
    pub packets_out: u64,
    /// Bytes of clients.
    pub bytes_in: u64,
    /// Bytes of real servers, as far as they pass here.
    pub bytes_out: u64,
}

impl Statistics {
    /// Reads the first that is there. The older form counts connections and packets in 32 bits;
    /// kernels since 4.1 send both.
    pub(super) fn find(attrs: &Attrs<'_>, wide: u16, narrow: u16) -> Self {
        let found = attrs.find(wide).or_else(|| attrs.find(narrow));
        found.map_or_else(Self::default, |it| Self::decode(&it.nested()))
    }

    fn decode(attrs: &Attrs<'_>) -> Self {
        let counter = |kind| attrs.find(kind).and_then(|it| it.counter_ne());
        Self {
            connections: counter(IPVS_STATS_ATTR_CONNS).unwrap_or(0),
            packets_in: counter(IPVS_STATS_ATTR_INPKTS).unwrap_or(0),
            packets_out: counter(IPVS_STATS_ATTR_OUTPKTS).unwrap_or(0),
            bytes_in: counter(IPVS_STATS_ATTR_INBYTES).unwrap_or(0),
            bytes_out: counter(IPVS_STATS_ATTR_OUTBYTES).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::AttrWriter;

    #[test]
    fn wide_counters_are_preferred_to_narrow_ones() {
        let narrow = |writer: &mut AttrWriter| {
            writer.nested(10, |it| it.u32_ne(IPVS_STATS_ATTR_CONNS, 7));
        };
        let connections = |writer: &AttrWriter| {
            Statistics::find(&Attrs::new(writer.as_bytes()), 12, 10).connections
        };
        let mut writer = AttrWriter::new();
        assert_eq!(connections(&writer), 0);
        narrow(&mut writer);
        assert_eq!(connections(&writer), 7);
        writer.nested(12, |it| {
            it.bytes(IPVS_STATS_ATTR_CONNS, &(1_u64 << 40).to_ne_bytes());
        });
        assert_eq!(connections(&writer), 1 << 40);
    }
}
