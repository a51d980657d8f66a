//! Names of what policies share, the same at every start and on every node.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::policy::Direction;

/// Names a [`PeerSet`](crate::PeerSet). Displays as `set-` and 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(u128);

impl SetId {
    /// The name of the set that this text describes.
    #[must_use]
    pub fn of(description: &str) -> Self {
        Self(hash(description))
    }

    /// Reads a name back; `None` for any other text.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("set-")?;
        let id = Self(u128::from_str_radix(digits, 16).ok()?);
        (id.to_string() == name).then_some(id)
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set-{:032x}", self.0)
    }
}

/// Names a [`Profile`](crate::Profile). Displays as `ingress-` or `egress-` and 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId {
    /// The direction that the profile is for.
    pub direction: Direction,
    hash: u128,
}

impl ProfileId {
    /// The name of the profile that this text describes.
    pub(crate) fn of(direction: Direction, description: &str) -> Self {
        Self {
            direction,
            hash: hash(description),
        }
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", self.direction, self.hash)
    }
}

/// Names a group of NetworkPolicies, [`Content::Group`](crate::Content::Group). Displays as `group-ingress-` or
/// `group-egress-` and 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId {
    /// The direction that the group is for.
    pub direction: Direction,
    hash: u128,
}

impl GroupId {
    /// The name of the group that this text describes.
    pub(crate) fn of(direction: Direction, description: &str) -> Self {
        Self {
            direction,
            hash: hash(description),
        }
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group-{}-{:032x}", self.direction, self.hash)
    }
}

/// Tenants write the text: with a hash that they can aim, two selections of theirs could share a set.
fn hash(text: &str) -> u128 {
    let digest = Sha256::digest(text.as_bytes());
    let half = digest.first_chunk().expect("SHA-256 has 32 bytes");
    u128::from_be_bytes(*half)
}
