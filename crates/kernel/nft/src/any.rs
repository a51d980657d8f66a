//! Chains of all families and the rules in them, of any program.

use std::fmt;

use sluice_netlink::attr::Attrs;
use sluice_netlink::{Family, RequestError};

use super::connection::Connection;
use super::expr::Expr;
use super::object::{Chain, Hook, Policy};
use super::observe::get;
use super::uapi;
use super::userdata;
use super::value::Verdict;

/// Bytes of the comment of iptables' match `comment` (`struct xt_comment_info`).
const XT_COMMENT: usize = 256;

/// The family of a table (`NFPROTO_*`). Displays as `nft` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the families")]
pub enum TableFamily {
    Inet = 1,
    Ip = 2,
    Arp = 3,
    Netdev = 5,
    Bridge = 7,
    Ip6 = 10,
}

impl TableFamily {
    pub(super) fn from_number(number: u32) -> Option<Self> {
        use TableFamily::{Arp, Bridge, Inet, Ip, Ip6, Netdev};
        let all = [Inet, Ip, Arp, Netdev, Bridge, Ip6];
        all.into_iter().find(|it| *it as u32 == number)
    }

    /// The word of `nft`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Arp => "arp",
            Self::Netdev => "netdev",
            Self::Bridge => "bridge",
            Self::Ip6 => "ip6",
        }
    }
}

impl fmt::Display for TableFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Family> for TableFamily {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::Ip,
            Family::Ipv6 => Self::Ip6,
        }
    }
}

/// A chain with its table and family. Displays as in `nft list chain`: `inet filter input`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyChain {
    pub family: TableFamily,
    /// Name of the table.
    pub table: String,
    /// Name of the chain.
    pub name: String,
    /// `None`: only jumps lead to the chain.
    pub hook: Option<Hook>,
}

impl fmt::Display for AnyChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family, self.table, self.name)
    }
}

impl AnyChain {
    /// Whether its policy drops packets that no rule decided.
    #[must_use]
    pub fn drops_by_policy(&self) -> bool {
        self.hook.is_some_and(|it| it.policy == Policy::Drop)
    }
}

/// A rule by its number. It may have expressions that [`Expr`] cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedRule {
    /// The chain that holds the rule.
    pub chain: String,
    /// The kernel's number of the rule; the table never uses it again.
    pub handle: u64,
    /// The action of a rule that drops, rejects or leads to another chain. Verdicts of maps do not count.
    pub action: Option<Action>,
    /// The comment of nftables, else of iptables' match `comment`.
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

impl Connection {
    /// The chains of all tables of the families `ip`, `ip6` and `inet`.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn all_chains(&mut self) -> Result<Vec<AnyChain>, RequestError> {
        let mut chains = Vec::new();
        for family in [TableFamily::Inet, TableFamily::Ip, TableFamily::Ip6] {
            let message = uapi::NFT_MSG_GETCHAIN;
            let request = get("list", "chains", message, family as u8, |_| {});
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

    /// The rules of a chain or of all chains of a table, in their order; none when there is no such chain.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn numbered_rules(
        &mut self,
        family: TableFamily,
        table: &str,
        chain: Option<&str>,
    ) -> Result<Vec<NumberedRule>, RequestError> {
        let message = uapi::NFT_MSG_GETRULE;
        let scope = (family as u8, table);
        self.within("list rules of", scope, message, chain, NumberedRule::decode)
    }
}

impl NumberedRule {
    /// Reads the attributes of `NFT_MSG_NEWRULE`.
    pub(super) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let userdata = attrs.find(uapi::NFTA_RULE_USERDATA);
        let comment = userdata.and_then(|it| userdata::comment(it.value, userdata::COMMENT));
        let exprs = attrs.nested(uapi::NFTA_RULE_EXPRESSIONS);
        let of_match = || exprs.clone().find_map(|it| xt_comment(&it.nested()));
        Some(Self {
            chain: attrs.string(uapi::NFTA_RULE_CHAIN)?,
            handle: attrs.u64_be(uapi::NFTA_RULE_HANDLE)?,
            comment: comment.map(str::to_owned).or_else(of_match),
            action: exprs.map(Expr::from_attr).find_map(Action::of),
        })
    }
}

impl Action {
    fn of(expression: Expr) -> Option<Self> {
        match expression {
            Expr::Verdict(Verdict::Drop) => Some(Self::Drop),
            Expr::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => {
                Some(Self::Continue(chain))
            }
            Expr::Reject { .. } => Some(Self::Reject),
            Expr::Other { name } if name == "reject" => Some(Self::Reject),
            _ => None,
        }
    }
}

/// The text of an expression `match` with iptables' extension `comment`.
fn xt_comment(expression: &Attrs<'_>) -> Option<String> {
    let operands = expression.nested(uapi::NFTA_EXPR_DATA);
    if expression.str(uapi::NFTA_EXPR_NAME)? != "match"
        || operands.str(uapi::NFTA_MATCH_NAME)? != "comment"
    {
        return None;
    }
    let text = operands.find(uapi::NFTA_MATCH_INFO)?.value;
    let text = text.get(..XT_COMMENT).unwrap_or(text);
    let end = text.iter().position(|it| *it == 0).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).ok().map(str::to_owned)
}
