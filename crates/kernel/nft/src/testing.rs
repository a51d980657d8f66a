//! nf_tables without a kernel, for tests of this crate's users.
//!
//! The fake reads the bytes of a transaction as the kernel would, and refuses what the kernel refuses: objects
//! that are named and not there, chains and sets that go while something leads to them, elements that do not fit
//! their set, loops. It takes a transaction whole or not at all. A test runs the same transactions against the
//! kernel. What the kernel checks of values and of expressions' operands, the fake does not check.

use std::collections::{BTreeMap, BTreeSet};

use sluice_netlink::message::{self, Message, Messages};
use sluice_netlink::{Errno, Family, RequestError, SocketError};

use crate::batch::Batch;
use crate::connection::{CommitError, Failure};
use crate::expr::Expr;
use crate::generation::Generation;
use crate::kernel::Kernel;
use crate::object::{Chain, ElementRef, KernelRule, Set, SetData, SetFlags, Table};
use crate::register::Register;
use crate::scope::Scope;
use crate::uapi;
use crate::value::{DataRef, Verdict};

/// The ruleset of a network namespace.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    tables: BTreeMap<(u8, String), Content>,
    /// How many transactions were applied.
    pub generation: u32,
}

/// The content of a table.
#[derive(Clone, Debug, Default)]
struct Content {
    comment: Option<String>,
    chains: BTreeMap<String, (Chain, Vec<(u64, KernelRule)>)>,
    sets: BTreeMap<String, (Set, BTreeMap<ElementKey, Element>)>,
    last_handle: u64,
}

/// The key, and whether it is the end of a range.
type ElementKey = (Vec<u8>, bool);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Element {
    key_end: Option<Vec<u8>>,
    data: Option<Data>,
    timeout_ms: Option<u64>,
    comment: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    Value(Vec<u8>),
    Verdict(Verdict),
}

/// The answer to one change.
type Answer = Result<(), Errno>;

impl Fake {
    /// A namespace without tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn content(&self, scope: Scope<'_>) -> Option<&Content> {
        let key = (scope.family.number(), scope.table.to_owned());
        self.tables.get(&key)
    }

    fn refused(operation: &'static str, object: &str) -> RequestError {
        RequestError::Refused {
            operation,
            object: object.to_owned(),
            errno: Errno::ENOENT,
            message: None,
        }
    }

    /// Makes one change, or many elements of one set. The error has the index of the refused element.
    fn change(&mut self, message: &Message<'_>) -> Result<(), (usize, Errno)> {
        let attrs = message.attrs();
        let name = attrs.string(uapi::NFTA_TABLE_NAME).unwrap_or_default();
        let key = (message.family(), name);
        let is_new = message.flags & message::EXCLUSIVE != 0;
        let first = |answer: Answer| answer.map_err(|errno| (0, errno));
        match message.kind & 0xff {
            uapi::NFT_MSG_NEWTABLE => {
                if is_new && self.tables.contains_key(&key) {
                    return Err((0, Errno::EEXIST));
                }
                let comment = Table::decode(&attrs).and_then(|it| it.comment);
                let content = Content {
                    comment,
                    ..Content::default()
                };
                self.tables.entry(key).or_insert(content);
                return Ok(());
            }
            uapi::NFT_MSG_DELTABLE => {
                return first(self.tables.remove(&key).map(drop).ok_or(Errno::ENOENT));
            }
            _ => {}
        }
        let content = self.tables.get_mut(&key).ok_or((0, Errno::ENOENT))?;
        match message.kind & 0xff {
            uapi::NFT_MSG_NEWCHAIN => first(content.add_chain(message, is_new)),
            uapi::NFT_MSG_DELCHAIN => first(content.delete_chain(message)),
            uapi::NFT_MSG_NEWRULE => first(content.add_rule(message)),
            uapi::NFT_MSG_DELRULE => first(content.delete_rules(message)),
            uapi::NFT_MSG_NEWSET => first(content.add_set(message, is_new)),
            uapi::NFT_MSG_DELSET => first(content.delete_set(message)),
            uapi::NFT_MSG_NEWSETELEM => content.elements(message, |content, set, element| {
                content.add_element(set, element, is_new)
            }),
            uapi::NFT_MSG_DELSETELEM => content.delete_elements(message),
            _ => Err((0, Errno::EOPNOTSUPP)),
        }
    }
}

impl Kernel for Fake {
    /// A copy of the ruleset: later changes of one are not seen by the other.
    fn reopen(&self) -> Result<Self, SocketError> {
        Ok(self.clone())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        let mut next = self.clone();
        let mut failures = Vec::new();
        for message in Messages::new(batch.begin_and_changes()) {
            if message.kind >> 8 != uapi::NFNL_SUBSYS_NFTABLES {
                continue;
            }
            if let Err((index, errno)) = next.change(&message) {
                failures.push(Failure {
                    tags: vec![batch.tag(message.sequence, index)],
                    errno,
                    message: None,
                });
            }
        }
        if !failures.is_empty() {
            return Err(CommitError::Refused { failures });
        }
        if !batch.is_empty() {
            next.generation += 1;
        }
        *self = next;
        Ok(())
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>, RequestError> {
        let of_family = self.tables.iter().filter(|it| it.0.0 == family.number());
        let tables = of_family.map(|((_, name), content)| Table {
            name: name.clone(),
            comment: content.comment.clone(),
            is_dormant: false,
        });
        Ok(tables.collect())
    }

    fn chains(&mut self, scope: Scope<'_>) -> Result<Vec<Chain>, RequestError> {
        let chains = self
            .content(scope)
            .into_iter()
            .flat_map(|it| it.chains.values());
        Ok(chains.map(|it| it.0.clone()).collect())
    }

    fn rules(
        &mut self,
        scope: Scope<'_>,
        chain: Option<&str>,
    ) -> Result<Vec<KernelRule>, RequestError> {
        let chains = self.content(scope).into_iter().flat_map(|it| &it.chains);
        let chains = chains.filter(|it| chain.is_none_or(|chain| it.0 == chain));
        let rules = chains.flat_map(|(_, (_, rules))| rules);
        Ok(rules.map(|it| it.1.clone()).collect())
    }

    fn sets(&mut self, scope: Scope<'_>) -> Result<Vec<(Set, Option<u32>)>, RequestError> {
        let content = self.content(scope);
        let content = content.ok_or_else(|| Self::refused("list sets of", scope.table))?;
        let sets = content.sets.values().map(|(set, elements)| {
            let counted = elements.keys().filter(|it| !it.0.is_empty()).count();
            (set.clone(), u32::try_from(counted).ok())
        });
        Ok(sets.collect())
    }

    fn for_each_element(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        visit: impl FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError> {
        let found = self.content(scope).and_then(|it| it.sets.get(set));
        let (_, elements) = found.ok_or_else(|| Self::refused("list elements of", set))?;
        let elements = elements.iter().map(|(key, it)| it.borrow(key));
        elements.for_each(visit);
        Ok(())
    }

    /// In a set of ranges, only the first address of a range is found.
    fn find_elements(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        keys: &[impl AsRef<[u8]>],
        visit: impl FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError> {
        let set = self.content(scope).and_then(|it| it.sets.get(set));
        let find = |key: &[u8]| set?.1.get_key_value(&(key.to_vec(), false));
        let found = keys.iter().filter_map(|key| find(key.as_ref()));
        found.map(|(key, it)| it.borrow(key)).for_each(visit);
        Ok(())
    }

    fn generation(&mut self) -> Result<Generation, RequestError> {
        Ok(Generation {
            id: self.generation,
            ..Generation::default()
        })
    }
}

impl Element {
    fn borrow<'a>(&'a self, (key, interval_end): &'a ElementKey) -> ElementRef<'a> {
        ElementRef {
            key,
            key_end: self.key_end.as_deref(),
            data: self.data.as_ref().map(Data::borrow),
            interval_end: *interval_end,
            timeout_ms: self.timeout_ms,
            comment: self.comment.as_deref(),
            packets: None,
        }
    }
}

impl Data {
    fn of(data: DataRef<'_>) -> Self {
        match data {
            DataRef::Value(it) => Self::Value(it.to_vec()),
            DataRef::Verdict(it) => Self::Verdict(it.to_owned()),
        }
    }

    fn borrow(&self) -> DataRef<'_> {
        match self {
            Self::Value(it) => DataRef::Value(it),
            Self::Verdict(it) => DataRef::Verdict(match it {
                Verdict::Accept => Verdict::Accept,
                Verdict::Drop => Verdict::Drop,
                Verdict::Return => Verdict::Return,
                Verdict::Goto(chain) => Verdict::Goto(chain.as_str()),
                Verdict::Jump(chain) => Verdict::Jump(chain.as_str()),
            }),
        }
    }

    fn target(&self) -> Option<&str> {
        match self {
            Self::Verdict(it) => target(it),
            Self::Value(_) => None,
        }
    }
}

/// The chain that a verdict leads to.
fn target(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Goto(chain) | Verdict::Jump(chain) => Some(chain),
        Verdict::Accept | Verdict::Drop | Verdict::Return => None,
    }
}

/// The set that an expression looks at.
fn set_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Lookup { set, .. } | Expr::Update { set, .. } => Some(set),
        _ => None,
    }
}

impl Content {
    fn add_chain(&mut self, message: &Message<'_>, is_new: bool) -> Answer {
        let chain = Chain::decode(&message.attrs()).ok_or(Errno::EINVAL)?;
        let Some((old, _)) = self.chains.get_mut(&chain.name) else {
            self.chains.insert(chain.name.clone(), (chain, Vec::new()));
            return Ok(());
        };
        let place = |it: &Chain| it.hook.map(|it| (it.kind, it.point, it.priority));
        if is_new {
            return Err(Errno::EEXIST);
        }
        if chain.hook.is_some() && place(old) != place(&chain) {
            return Err(Errno::EOPNOTSUPP);
        }
        if let (Some(old), Some(new)) = (&mut old.hook, chain.hook) {
            old.policy = new.policy;
        }
        Ok(())
    }

    fn delete_chain(&mut self, message: &Message<'_>) -> Answer {
        let name = message.attrs().string(uapi::NFTA_CHAIN_NAME);
        let name = name.ok_or(Errno::EINVAL)?;
        if !self.chains.contains_key(&name) {
            return Err(Errno::ENOENT);
        }
        let others = self.chains.iter().filter(|it| *it.0 != name);
        let mut exprs = others.flat_map(|it| &it.1.1).flat_map(|it| &it.1.exprs);
        let mut data = self.sets.values().flat_map(|it| it.1.values());
        let is_used = exprs.any(|it| match it {
            Expr::Verdict(verdict) => target(verdict) == Some(&name),
            _ => false,
        }) || data.any(|it| it.data.as_ref().and_then(Data::target) == Some(&name));
        if is_used {
            return Err(Errno::EBUSY);
        }
        self.chains.remove(&name);
        Ok(())
    }

    fn leads_to(&self, verdict: &Verdict) -> Answer {
        match target(verdict).map(|it| self.chains.get(it)) {
            Some(None) => Err(Errno::ENOENT),
            Some(Some((chain, _))) if chain.hook.is_some() => Err(Errno::EOPNOTSUPP),
            _ => Ok(()),
        }
    }

    fn add_rule(&mut self, message: &Message<'_>) -> Answer {
        let rule = KernelRule::decode(&message.attrs()).ok_or(Errno::EINVAL)?;
        if !self.chains.contains_key(&rule.chain) {
            return Err(Errno::ENOENT);
        }
        for expr in &rule.exprs {
            match expr {
                Expr::Verdict(verdict) => self.leads_to(verdict)?,
                Expr::Lookup { set, dreg, .. } => {
                    let (set, _) = self.sets.get(set).ok_or(Errno::ENOENT)?;
                    let fits = match (dreg, set.data) {
                        (None, _) => true,
                        (Some(_), None) => false,
                        (Some(it), Some(SetData::Verdict)) => *it == Register::VERDICT,
                        (Some(it), Some(SetData::Value { .. })) => *it != Register::VERDICT,
                    };
                    if !fits {
                        return Err(Errno::EINVAL);
                    }
                }
                Expr::Update { set, .. } => {
                    let (set, _) = self.sets.get(set).ok_or(Errno::ENOENT)?;
                    if !set.flags.contains(SetFlags::TIMEOUT) {
                        return Err(Errno::EOPNOTSUPP);
                    }
                }
                Expr::Other { .. } => return Err(Errno::ENOENT),
                _ => {}
            }
        }
        self.last_handle += 1;
        let handle = self.last_handle;
        let (_, rules) = self.chains.get_mut(&rule.chain).ok_or(Errno::ENOENT)?;
        rules.push((handle, rule));
        self.has_an_end()
    }

    fn delete_rules(&mut self, message: &Message<'_>) -> Answer {
        let attrs = message.attrs();
        let name = attrs.str(uapi::NFTA_RULE_CHAIN).ok_or(Errno::EINVAL)?;
        let (_, rules) = self.chains.get_mut(name).ok_or(Errno::ENOENT)?;
        let Some(handle) = attrs.u64_be(uapi::NFTA_RULE_HANDLE) else {
            rules.clear();
            return Ok(());
        };
        let place = rules.iter().position(|it| it.0 == handle);
        rules.remove(place.ok_or(Errno::ENOENT)?);
        Ok(())
    }

    fn add_set(&mut self, message: &Message<'_>, is_new: bool) -> Answer {
        let set = Set::decode(&message.attrs()).ok_or(Errno::EINVAL)?;
        let Some((old, _)) = self.sets.get(&set.name) else {
            self.sets.insert(set.name.clone(), (set, BTreeMap::new()));
            return Ok(());
        };
        let kind = |it: &Set| (it.flags, it.key_type, it.key_length, it.data);
        if is_new || kind(old) != kind(&set) {
            return Err(Errno::EEXIST);
        }
        Ok(())
    }

    fn delete_set(&mut self, message: &Message<'_>) -> Answer {
        let name = message.attrs().string(uapi::NFTA_SET_NAME);
        let name = name.ok_or(Errno::EINVAL)?;
        if !self.sets.contains_key(&name) {
            return Err(Errno::ENOENT);
        }
        let rules = self.chains.values().flat_map(|it| &it.1);
        let mut exprs = rules.flat_map(|it| &it.1.exprs);
        if exprs.any(|it| set_of(it) == Some(&name)) {
            return Err(Errno::EBUSY);
        }
        self.sets.remove(&name);
        Ok(())
    }

    /// Applies `change` to each element of a message until one is refused.
    fn elements(
        &mut self,
        message: &Message<'_>,
        change: impl Fn(&mut Self, &str, &ElementRef<'_>) -> Answer,
    ) -> Result<(), (usize, Errno)> {
        let attrs = message.attrs();
        let set = attrs.str(uapi::NFTA_SET_ELEM_LIST_SET).unwrap_or_default();
        if !self.sets.contains_key(set) {
            return Err((0, Errno::ENOENT));
        }
        let list = attrs.nested(uapi::NFTA_SET_ELEM_LIST_ELEMENTS);
        for (index, element) in list.enumerate() {
            let element = ElementRef::decode(element).ok_or((index, Errno::EINVAL))?;
            change(self, set, &element).map_err(|errno| (index, errno))?;
        }
        Ok(())
    }

    fn add_element(&mut self, set: &str, element: &ElementRef<'_>, is_new: bool) -> Answer {
        let data = element.data.map(Data::of);
        if let Some(Data::Verdict(verdict)) = &data {
            self.leads_to(verdict)?;
        }
        let (set, elements) = self.sets.get_mut(set).ok_or(Errno::ENOENT)?;
        if !element.key.is_empty() && element.key.len() != set.key_length as usize {
            return Err(Errno::EINVAL);
        }
        let fits = match (set.data, &data) {
            (None, None) => true,
            (Some(SetData::Verdict), Some(Data::Verdict(_))) => true,
            (Some(SetData::Value { length, .. }), Some(Data::Value(it))) => {
                it.len() == length as usize
            }
            (Some(_), None) => element.interval_end,
            _ => false,
        };
        if !fits || (element.interval_end && !set.flags.contains(SetFlags::INTERVAL)) {
            return Err(Errno::EINVAL);
        }
        if element.timeout_ms.is_some() && !set.flags.contains(SetFlags::TIMEOUT) {
            return Err(Errno::EINVAL);
        }
        let key = (element.key.to_vec(), element.interval_end);
        match elements.get(&key) {
            Some(old) if is_new || old.data != data => return Err(Errno::EEXIST),
            Some(_) => return Ok(()),
            None => {}
        }
        if set.size.is_some_and(|it| elements.len() >= it as usize) {
            return Err(Errno::ENFILE);
        }
        let element = Element {
            key_end: element.key_end.map(<[u8]>::to_vec),
            data,
            timeout_ms: element.timeout_ms,
            comment: element.comment.map(str::to_owned),
        };
        let leads_on = element.data.as_ref().and_then(Data::target).is_some();
        elements.insert(key, element);
        if leads_on { self.has_an_end() } else { Ok(()) }
    }

    fn delete_elements(&mut self, message: &Message<'_>) -> Result<(), (usize, Errno)> {
        let attrs = message.attrs();
        if attrs.find(uapi::NFTA_SET_ELEM_LIST_ELEMENTS).is_none() {
            let set = attrs.str(uapi::NFTA_SET_ELEM_LIST_SET).unwrap_or_default();
            let set = self.sets.get_mut(set).ok_or((0, Errno::ENOENT))?;
            set.1.clear();
            return Ok(());
        }
        self.elements(message, |content, set, element| {
            let (_, elements) = content.sets.get_mut(set).ok_or(Errno::ENOENT)?;
            let key = (element.key.to_vec(), element.interval_end);
            elements.remove(&key).map(drop).ok_or(Errno::ENOENT)
        })
    }

    /// Refuses chains that lead back to themselves.
    fn has_an_end(&self) -> Answer {
        let mut safe = BTreeSet::new();
        loop {
            let before = safe.len();
            for name in self.chains.keys() {
                if self.targets(name).all(|it| safe.contains(it)) {
                    safe.insert(name.as_str());
                }
            }
            if safe.len() == self.chains.len() {
                return Ok(());
            }
            if safe.len() == before {
                return Err(Errno::EMLINK);
            }
        }
    }

    /// The chains that the rules of a chain lead to, also by maps.
    fn targets(&self, chain: &str) -> impl Iterator<Item = &str> {
        let rules = self.chains.get(chain).into_iter().flat_map(|it| &it.1);
        let exprs = rules.flat_map(|it| &it.1.exprs);
        exprs.flat_map(|expr| {
            let own = match expr {
                Expr::Verdict(verdict) => target(verdict),
                _ => None,
            };
            let set = set_of(expr).and_then(|it| self.sets.get(it));
            let elements = set.into_iter().flat_map(|it| it.1.values());
            let of_map = elements.filter_map(|it| it.data.as_ref()?.target());
            own.into_iter().chain(of_map)
        })
    }
}
