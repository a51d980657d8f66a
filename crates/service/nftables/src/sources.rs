//! Lists of sources that may connect (`spec.loadBalancerSourceRanges`): one set and one chain for each
//! distinct list, shared by all frontends that have it.
//!
//! A set of frontend and range together would be slow: the kernel's set of concatenated ranges
//! (`nft_set_pipapo.c`) is copied and laid out again with each transaction, in more than linear time.

use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;

use crate::definition::SOURCES;
use crate::name::{ChainName, OUTSIDE_SOURCE_RANGES};
use crate::object::{Chain, Key, Object, Rules};
use crate::rule::{Action, Match, Rule, Sense, SetRef};
use crate::source_list::SourceList;

/// The lists of a service port. All its frontends share one, which is hashed once.
#[derive(Debug, Default)]
pub(crate) struct Lists(Vec<(Arc<[IpNet]>, SourceList)>);

impl Lists {
    /// The list of these ranges, and whether it is new here.
    pub(crate) fn put(&mut self, ranges: &Arc<[IpNet]>) -> (SourceList, bool) {
        let known = self.0.iter().find(|(it, _)| Arc::ptr_eq(it, ranges));
        if let Some((_, list)) = known {
            return (*list, false);
        }
        let list = SourceList::of(ranges);
        let is_new = self.0.iter().all(|(_, it)| *it != list);
        self.0.push((ranges.clone(), list));
        (list, is_new)
    }
}

/// The set and the chain of a list. Packets of allowed sources return from the chain.
pub(crate) fn objects(
    family: IpFamily,
    list: SourceList,
    ranges: &Arc<[IpNet]>,
) -> [(Key, Object); 2] {
    let others = Match::In(Sense::IsNot, SOURCES.key.into(), SetRef::Sources(list));
    let outside = Action::Goto(ChainName::Standing(OUTSIDE_SOURCE_RANGES));
    let chain = Chain {
        hook: None,
        comment: "".into(),
        rules: Rules::Ours(family, [Rule::when(others, outside)].into()),
    };
    let set = (Key::Sources(family, list), Object::Sources(ranges.clone()));
    let chain = (
        Key::Chain(family, ChainName::Sources(list)),
        Object::Chain(chain),
    );
    [set, chain]
}
