//! Rules that lead from one chain to another.

use crate::attr::Attrs;
use crate::request::RequestError;

use super::connection::Connection;
use super::expr::Expr;
use super::scope::Scope;
use super::uapi;
use super::value::Verdict;

/// A rule that jumps or goes to another chain of its table. Whatever else the rule says is left
/// out, so this also describes rules of other programs, whose expressions this crate cannot say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Jump {
    /// The chain that holds the rule.
    pub chain: String,
    /// The kernel's number of the rule, unique in its table for ever.
    pub handle: u64,
    /// Where it leads.
    pub target: String,
}

impl Jump {
    /// Reads the attributes of `NFT_MSG_NEWRULE`; `None` when the rule leads nowhere else. Only a
    /// verdict of the rule itself counts, not those of maps.
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let exprs = attrs.find(uapi::NFTA_RULE_EXPRESSIONS)?.nested();
        let target = exprs.map(Expr::from_attr).find_map(|it| match it {
            Expr::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => Some(chain),
            _ => None,
        })?;
        Some(Self {
            chain: attrs.find(uapi::NFTA_RULE_CHAIN)?.str()?.to_owned(),
            handle: attrs.find(uapi::NFTA_RULE_HANDLE)?.u64_be()?,
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
        let mut jumps = Vec::new();
        self.within(
            "list rules of",
            scope,
            uapi::NFT_MSG_GETRULE,
            &|_| {},
            &mut |message| jumps.extend(Jump::decode(&message.attrs())),
        )?;
        Ok(jumps)
    }
}
