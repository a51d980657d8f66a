//! The number of a ruleset.

use crate::attr::Attrs;

use super::uapi;

/// Which transaction the kernel committed last, and who is behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Raised by one with every transaction in the namespace; starts again after 2^32.
    pub id: u32,
    /// Process (thread) id.
    pub process_id: u32,
    /// Process (thread) name, at most 15 bytes.
    pub process_name: String,
}

impl Generation {
    /// Reads the attributes of `NFT_MSG_NEWGEN`.
    #[must_use]
    pub fn decode(attrs: &Attrs<'_>) -> Self {
        let number = |kind| {
            attrs
                .find(kind)
                .and_then(|it| it.u32_be())
                .unwrap_or_default()
        };
        let name = attrs.find(uapi::NFTA_GEN_PROC_NAME).and_then(|it| it.str());
        Self {
            id: number(uapi::NFTA_GEN_ID),
            process_id: number(uapi::NFTA_GEN_PROC_PID),
            process_name: name.unwrap_or_default().to_owned(),
        }
    }
}
