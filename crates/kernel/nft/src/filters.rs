//! Chains of all tables and families that may drop packets at a hook, of any program.

use std::fmt;

use sluice_netlink::RequestError;
use sluice_netlink::attr::Attrs;

use super::connection::Connection;
use super::expr::Expr;
use super::object::{Chain, Hook, Policy};
use super::observe::get;
use super::uapi;
use super::userdata;
use super::value::Verdict;

/// `linux/netfilter.h`.
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;

/// A chain with its table and family. Displays as in `nft list chain`: `inet filter input`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyChain {
    /// `NFPROTO_*`.
    family: u8,
    /// Name of the table.
    pub table: String,
    /// Name of the chain.
    pub name: String,
    /// `None`: only jumps lead to the chain.
    pub hook: Option<Hook>,
}

/// A rule that drops or rejects, or leads to another chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The kernel's number of the rule.
    pub handle: u64,
    /// The action of the rule.
    pub action: Action,
    /// The comment of the rule.
    pub comment: Option<String>,
}

/// The action of a rule that may drop the packet or move it to another chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packet is dropped.
    Drop,
    /// The packet is rejected.
    Reject,
    /// The packet continues in the chain of this name.
    Continue(String),
}

impl fmt::Display for AnyChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family(), self.table, self.name)
    }
}

impl AnyChain {
    /// The family as nft prints it.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match self.family {
            NFPROTO_INET => "inet",
            NFPROTO_IPV4 => "ip",
            _ => "ip6",
        }
    }

    /// Whether its policy drops packets that no rule decided.
    #[must_use]
    pub fn drops_by_policy(&self) -> bool {
        self.hook.is_some_and(|it| it.policy == Policy::Drop)
    }
}

impl Connection {
    /// The chains of all tables of the families `ip`, `ip6` and `inet`.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn all_chains(&mut self) -> Result<Vec<AnyChain>, RequestError> {
        let mut chains = Vec::new();
        for family in [NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6] {
            let request = get("list", "chains", uapi::NFT_MSG_GETCHAIN, family, |_| {});
            chains.extend(self.list(&request, |attrs| {
                let chain = Chain::decode(attrs)?;
                Some(AnyChain {
                    family,
                    table: attrs.string(uapi::NFTA_TABLE_NAME)?,
                    name: chain.name,
                    hook: chain.hook,
                })
            })?);
        }
        Ok(chains)
    }

    /// The rules of a chain that drop, reject or lead to another chain, in their order.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn decisions(&mut self, chain: &AnyChain) -> Result<Vec<Decision>, RequestError> {
        let (message, name) = (uapi::NFT_MSG_GETRULE, chain.to_string());
        let request = get("list rules of", &name, message, chain.family, |writer| {
            writer.string(uapi::NFTA_TABLE_NAME, &chain.table);
            writer.string(uapi::NFTA_RULE_CHAIN, &chain.name);
        });
        self.list(&request, Decision::decode)
    }
}

impl Decision {
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let exprs = attrs.nested(uapi::NFTA_RULE_EXPRESSIONS);
        let action = exprs.map(Expr::from_attr).find_map(|it| match it {
            Expr::Verdict(Verdict::Drop) => Some(Action::Drop),
            Expr::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => {
                Some(Action::Continue(chain))
            }
            Expr::Reject { .. } => Some(Action::Reject),
            Expr::Other { name } if name == "reject" => Some(Action::Reject),
            _ => None,
        })?;
        let comment = attrs.find(uapi::NFTA_RULE_USERDATA);
        let comment = comment.and_then(|it| userdata::comment(it.value, userdata::COMMENT));
        Some(Self {
            handle: attrs.u64_be(uapi::NFTA_RULE_HANDLE)?,
            action,
            comment: comment.map(str::to_owned),
        })
    }
}
