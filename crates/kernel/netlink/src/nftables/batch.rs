//! A transaction in one buffer.

mod blame;

use std::ops::Range;

use crate::attr::{AttrWriter, Nest};
use crate::message::{self, Header};

use super::object::{Chain, ElementRef, Rule, Set, Table, put_element, put_table_name};
use super::scope::Scope;
use super::uapi;

/// A message of packed elements is closed when its list is this long, in bytes: the length of an
/// attribute has 16 bits, and the element that crosses the line must still fit.
const ELEMENTS_PER_MESSAGE: usize = 60_000;

/// What to do when the object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// Leave it (`NLM_F_CREATE`). A chain's policy and comment are updated; an element with other
    /// data is refused all the same.
    IfMissing,
    /// Refuse the transaction (`NLM_F_CREATE | NLM_F_EXCL`).
    New,
}

impl Create {
    fn flags(self) -> u16 {
        match self {
            Self::IfMissing => message::CREATE,
            Self::New => message::CREATE | message::EXCLUSIVE,
        }
    }
}

/// Which objects of the caller one message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    One(u32),
    /// A range of `Batch::element_tags`.
    Elements(Range<usize>),
}

#[derive(Clone, Debug)]
struct Record {
    /// Where the message begins in the buffer.
    start: usize,
    tags: Tags,
}

/// The message that takes more elements, as long as they go to the same place.
#[derive(Clone, Debug)]
struct OpenElements {
    kind: u16,
    flags: u16,
    family: u8,
    table: String,
    set: String,
    list: Nest,
}

/// A transaction: changes in the order in which they were added, encoded as they were added.
///
/// Every method takes a `tag`, an index into the caller's own list of objects, by which a
/// [`super::Failure`] names the culprit. Names and values are not checked here; the kernel does.
#[derive(Clone, Debug)]
pub struct Batch {
    writer: AttrWriter,
    /// Message `i` has sequence number `i + 1`; the frame has 0.
    records: Vec<Record>,
    element_tags: Vec<u32>,
    oversized: Vec<u32>,
    open: Option<OpenElements>,
    sets: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// A transaction without changes.
    #[must_use]
    pub fn new() -> Self {
        let mut writer = AttrWriter::new();
        frame(&mut writer, uapi::NFNL_MSG_BATCH_BEGIN);
        Self {
            writer,
            records: Vec::new(),
            element_tags: Vec::new(),
            oversized: Vec::new(),
            open: None,
            sets: 0,
        }
    }

    /// Length in bytes of what will be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether there is nothing to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a table.
    pub fn add_table(&mut self, tag: u32, scope: Scope<'_>, comment: Option<&str>, create: Create) {
        let table = Table {
            name: scope.table.to_owned(),
            comment: comment.map(str::to_owned),
        };
        self.message(tag, scope, uapi::NFT_MSG_NEWTABLE, create.flags(), |it| {
            table.put(it)
        });
    }

    /// Removes a table and everything in it; refused when there is none.
    pub fn delete_table(&mut self, tag: u32, scope: Scope<'_>) {
        self.message(tag, scope, uapi::NFT_MSG_DELTABLE, 0, |it| {
            put_table_name(it, scope.table)
        });
    }

    /// Adds a chain.
    pub fn add_chain(&mut self, tag: u32, scope: Scope<'_>, chain: &Chain, create: Create) {
        self.within(tag, scope, uapi::NFT_MSG_NEWCHAIN, create.flags(), |it| {
            chain.put(it)
        });
    }

    /// Removes a chain; refused when rules or elements lead to it.
    pub fn delete_chain(&mut self, tag: u32, scope: Scope<'_>, chain: &str) {
        self.within(tag, scope, uapi::NFT_MSG_DELCHAIN, 0, |it| {
            it.string(uapi::NFTA_CHAIN_NAME, chain)
        });
    }

    /// Removes all rules of a chain.
    pub fn flush_chain(&mut self, tag: u32, scope: Scope<'_>, chain: &str) {
        self.within(tag, scope, uapi::NFT_MSG_DELRULE, 0, |it| {
            it.string(uapi::NFTA_RULE_CHAIN, chain)
        });
    }

    /// Adds a rule at the end of its chain.
    pub fn add_rule(&mut self, tag: u32, scope: Scope<'_>, rule: &Rule) {
        let flags = message::CREATE | message::APPEND;
        self.within(tag, scope, uapi::NFT_MSG_NEWRULE, flags, |it| rule.put(it));
    }

    /// Removes one rule, by the number that [`super::Jump`] has; refused when it is gone.
    pub fn delete_rule(&mut self, tag: u32, scope: Scope<'_>, chain: &str, handle: u64) {
        self.within(tag, scope, uapi::NFT_MSG_DELRULE, 0, |it| {
            it.string(uapi::NFTA_RULE_CHAIN, chain);
            it.u64_be(uapi::NFTA_RULE_HANDLE, handle);
        });
    }

    /// Adds a set or map. One that exists with other properties is refused.
    pub fn add_set(&mut self, tag: u32, scope: Scope<'_>, set: &Set, create: Create) {
        self.sets += 1;
        let id = self.sets;
        self.within(tag, scope, uapi::NFT_MSG_NEWSET, create.flags(), |it| {
            set.put(it, id)
        });
    }

    /// Removes a set; refused when a rule uses it.
    pub fn delete_set(&mut self, tag: u32, scope: Scope<'_>, set: &str) {
        self.within(tag, scope, uapi::NFT_MSG_DELSET, 0, |it| {
            it.string(uapi::NFTA_SET_NAME, set)
        });
    }

    /// Removes all elements of a set.
    pub fn flush_set(&mut self, tag: u32, scope: Scope<'_>, set: &str) {
        self.within(tag, scope, uapi::NFT_MSG_DELSETELEM, 0, |it| {
            it.string(uapi::NFTA_SET_ELEM_LIST_SET, set)
        });
    }

    /// Adds an element. Neighbours that go to the same set share a message.
    pub fn add_element(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        set: &str,
        element: &ElementRef<'_>,
        create: Create,
    ) {
        self.element(
            tag,
            scope,
            set,
            element,
            uapi::NFT_MSG_NEWSETELEM,
            create.flags(),
        );
    }

    /// Removes an element; refused when it is not there. Only its key counts.
    pub fn delete_element(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        set: &str,
        element: &ElementRef<'_>,
    ) {
        let key = ElementRef {
            data: None,
            comment: None,
            timeout_ms: None,
            ..*element
        };
        self.element(tag, scope, set, &key, uapi::NFT_MSG_DELSETELEM, 0);
    }

    /// What to send, in two parts: the frame's end is not stored, so that changes can be added
    /// after a commit was refused.
    pub(crate) fn begin_and_changes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    /// The frame's end.
    pub(crate) fn end() -> AttrWriter {
        let mut writer = AttrWriter::new();
        frame(&mut writer, uapi::NFNL_MSG_BATCH_END);
        writer
    }

    /// Tags of objects that do not fit a message; the batch must not be sent when there are any.
    pub(crate) fn oversized(&self) -> &[u32] {
        &self.oversized
    }

    /// A message whose first attribute is the table's name.
    fn within(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut AttrWriter),
    ) {
        self.message(tag, scope, kind, flags, |writer| {
            put_table_name(writer, scope.table);
            body(writer);
        });
    }

    fn message(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut AttrWriter),
    ) {
        self.open = None;
        let start = self.begin(scope.family.nfproto(), kind, flags, Tags::One(tag));
        body(&mut self.writer);
        message::end(&mut self.writer, start);
        self.note_oversized(tag);
    }

    fn element(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        set: &str,
        element: &ElementRef<'_>,
        kind: u16,
        flags: u16,
    ) {
        if !self.takes(scope, set, kind, flags) {
            self.open_elements(scope, set, kind, flags);
        }
        put_element(&mut self.writer, element);
        self.element_tags.push(tag);
        if let (Some(open), Some(record)) = (&self.open, self.records.last_mut()) {
            if let Tags::Elements(range) = &mut record.tags {
                range.end = self.element_tags.len();
            }
            self.writer.end(open.list);
            message::end(&mut self.writer, record.start);
        }
        self.note_oversized(tag);
    }

    /// Whether the last message is open for an element of this set.
    fn takes(&self, scope: Scope<'_>, set: &str, kind: u16, flags: u16) -> bool {
        self.open.as_ref().is_some_and(|open| {
            open.kind == kind
                && open.flags == flags
                && open.family == scope.family.nfproto()
                && open.set == set
                && open.table == scope.table
                && self.writer.length_of(open.list) < ELEMENTS_PER_MESSAGE
        })
    }

    fn open_elements(&mut self, scope: Scope<'_>, set: &str, kind: u16, flags: u16) {
        let family = scope.family.nfproto();
        let first = self.element_tags.len();
        self.begin(family, kind, flags, Tags::Elements(first..first));
        put_table_name(&mut self.writer, scope.table);
        self.writer.string(uapi::NFTA_SET_ELEM_LIST_SET, set);
        let list = self.writer.begin(uapi::NFTA_SET_ELEM_LIST_ELEMENTS);
        self.open = Some(OpenElements {
            kind,
            flags,
            family,
            table: scope.table.to_owned(),
            set: set.to_owned(),
            list,
        });
    }

    /// The first message asks for an acknowledgement: the kernel reports every error, but success
    /// only where it was asked to, and only after it committed (`nfnetlink_rcv_batch`).
    fn begin(&mut self, family: u8, kind: u16, flags: u16, tags: Tags) -> usize {
        let ack = if self.records.is_empty() {
            message::ACK
        } else {
            0
        };
        let start = self.writer.len();
        self.records.push(Record { start, tags });
        let sequence = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        let kind = (uapi::NFNL_SUBSYS_NFTABLES << 8) | kind;
        message::begin(
            &mut self.writer,
            Header {
                kind,
                flags: flags | ack,
                sequence,
                family,
                resource: 0,
            },
        )
    }

    fn note_oversized(&mut self, tag: u32) {
        if self.writer.take_oversized() {
            self.oversized.push(tag);
        }
    }
}

fn frame(writer: &mut AttrWriter, kind: u16) {
    let header = Header {
        kind,
        flags: 0,
        sequence: 0,
        family: 0,
        resource: uapi::NFNL_SUBSYS_NFTABLES,
    };
    let start = message::begin(writer, header);
    message::end(writer, start);
}

#[cfg(test)]
mod tests;
