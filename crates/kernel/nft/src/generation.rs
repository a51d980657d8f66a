//! The generation of a ruleset.

use sluice_netlink::attr::Attrs;

use super::uapi;

/// The number of the last committed transaction, and a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Grows by one with every transaction in the network namespace; starts again after 2^32.
    pub id: u32,
    /// Id of the thread. In a notice it is the author, in an answer the thread that asked.
    pub process_id: u32,
    /// Name of the thread, at most 15 bytes.
    pub process_name: String,
}

impl Generation {
    /// The number after one more transaction. Zero is no generation (`nft_base_seq_inc`, nf_tables_api.c).
    #[must_use]
    pub fn after(id: u32) -> u32 {
        id.wrapping_add(1).max(1)
    }

    /// Reads the attributes of `NFT_MSG_NEWGEN`.
    pub(super) fn decode(attrs: &Attrs<'_>) -> Self {
        Self {
            id: attrs.u32_be(uapi::NFTA_GEN_ID).unwrap_or_default(),
            process_id: attrs.u32_be(uapi::NFTA_GEN_PROC_PID).unwrap_or_default(),
            process_name: attrs.string(uapi::NFTA_GEN_PROC_NAME).unwrap_or_default(),
        }
    }
}
