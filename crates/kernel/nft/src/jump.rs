//! Rules with a jump or goto.

use sluice_netlink::attr::Attrs;
use sluice_netlink::request::RequestError;

use super::connection::Connection;
use super::expr::Expr;
use super::scope::Scope;
use super::uapi;
use super::value::Verdict;

/// A rule that jumps or goes to another chain of its table. It can be a rule of another program, with
/// expressions that [`Expr`] cannot express: they are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Jump {
    /// The chain that holds the rule.
    pub chain: String,
    /// The kernel's number of the rule; the table never uses it again.
    pub handle: u64,
    /// The destination chain.
    pub target: String,
}

impl Jump {
    /// Reads the attributes of `NFT_MSG_NEWRULE`; `None` when the rule has no jump or goto of its own.
    /// Verdicts of maps do not count.
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let exprs = attrs.nested(uapi::NFTA_RULE_EXPRESSIONS);
        let target = exprs.map(Expr::from_attr).find_map(|it| match it {
            Expr::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => Some(chain),
            _ => None,
        })?;
        Some(Self {
            chain: attrs.string(uapi::NFTA_RULE_CHAIN)?,
            handle: attrs.u64_be(uapi::NFTA_RULE_HANDLE)?,
            target,
        })
    }
}

impl Connection {
    /// The jumps of all chains of a table, in the order of the rules; none when there is no such
    /// table.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn jumps(&mut self, scope: Scope<'_>) -> Result<Vec<Jump>, RequestError> {
        let message = uapi::NFT_MSG_GETRULE;
        self.within("list rules of", scope, message, None, Jump::decode)
    }
}
