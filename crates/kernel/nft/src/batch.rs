//! A transaction in one buffer.

use std::ops::Range;

use sluice_netlink::attr::{AttrWriter, Nest};
use sluice_netlink::message::{self, Answer, Head};

use super::object::{Chain, ElementRef, KernelRule, Set, put_comment, put_element, put_table_name};
use super::scope::Scope;
use super::uapi;

/// A message of elements is closed when its list is this long in bytes. The length of an attribute
/// has 16 bits, and the last element must still fit.
const ELEMENTS_PER_MESSAGE: usize = 60_000;

/// Whether the object may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// An existing object stays (`NLM_F_CREATE`). A chain gets the policy and the comment; an element
    /// with other data is refused all the same.
    IfMissing,
    /// An existing object refuses the transaction (`NLM_F_CREATE | NLM_F_EXCL`).
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

/// One message of the transaction.
#[derive(Clone, Debug)]
struct Record {
    /// Where the message begins in the buffer.
    start: usize,
    /// Its objects in `Batch::objects`.
    objects: Range<usize>,
}

/// An object of the caller.
#[derive(Clone, Copy, Debug)]
struct Object {
    tag: u32,
    /// Where the object begins in its message, in bytes.
    offset: usize,
}

/// The last message, while it takes more elements of the same set.
#[derive(Clone, Debug)]
struct OpenElements {
    head: Head,
    table: String,
    set: String,
    list: Nest,
}

/// A transaction: changes in the order in which they were added.
///
/// Every method takes a `tag`, an index into the caller's own list of objects, by which a
/// [`super::Failure`] names the refused object. The kernel checks names and values, this type does
/// not.
#[derive(Clone, Debug)]
pub struct Batch {
    writer: AttrWriter,
    /// Message `i` has sequence number `i + 1`; `BATCH_BEGIN` and `BATCH_END` have 0.
    records: Vec<Record>,
    objects: Vec<Object>,
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
        Self {
            writer: frame(uapi::NFNL_MSG_BATCH_BEGIN),
            records: Vec::new(),
            objects: Vec::new(),
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

    /// Whether the transaction has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn add_table(&mut self, tag: u32, scope: Scope<'_>, comment: Option<&str>, create: Create) {
        self.message(tag, scope, uapi::NFT_MSG_NEWTABLE, create.flags(), |it| {
            it.u32_be(uapi::NFTA_TABLE_FLAGS, 0);
            put_comment(it, uapi::NFTA_TABLE_USERDATA, comment);
        });
    }

    /// Adds a table that the kernel deletes with the socket that commits this, and that no other program can change.
    /// Refused before Linux 5.12.
    pub fn add_owned_table(&mut self, tag: u32, scope: Scope<'_>) {
        let flags = Create::New.flags();
        self.message(tag, scope, uapi::NFT_MSG_NEWTABLE, flags, |it| {
            it.u32_be(uapi::NFTA_TABLE_FLAGS, uapi::NFT_TABLE_F_OWNER);
        });
    }

    /// Deletes a table and everything in it; refused when there is none.
    pub fn delete_table(&mut self, tag: u32, scope: Scope<'_>) {
        self.message(tag, scope, uapi::NFT_MSG_DELTABLE, 0, |_| {});
    }

    pub fn add_chain(&mut self, tag: u32, scope: Scope<'_>, chain: &Chain, create: Create) {
        self.message(tag, scope, uapi::NFT_MSG_NEWCHAIN, create.flags(), |it| {
            chain.put(it)
        });
    }

    /// Deletes a chain; refused while rules or elements lead to it.
    pub fn delete_chain(&mut self, tag: u32, scope: Scope<'_>, chain: &str) {
        self.message(tag, scope, uapi::NFT_MSG_DELCHAIN, 0, |it| {
            it.string(uapi::NFTA_CHAIN_NAME, chain)
        });
    }

    /// Deletes all rules of a chain.
    pub fn flush_chain(&mut self, tag: u32, scope: Scope<'_>, chain: &str) {
        self.message(tag, scope, uapi::NFT_MSG_DELRULE, 0, |it| {
            it.string(uapi::NFTA_RULE_CHAIN, chain)
        });
    }

    /// Adds a rule at the end of its chain.
    pub fn add_rule(&mut self, tag: u32, scope: Scope<'_>, rule: &KernelRule) {
        let flags = message::CREATE | message::APPEND;
        self.message(tag, scope, uapi::NFT_MSG_NEWRULE, flags, |it| rule.put(it));
    }

    /// Deletes one rule by its handle; refused when it is gone.
    pub fn delete_rule(&mut self, tag: u32, scope: Scope<'_>, chain: &str, handle: u64) {
        self.message(tag, scope, uapi::NFT_MSG_DELRULE, 0, |it| {
            it.string(uapi::NFTA_RULE_CHAIN, chain);
            it.u64_be(uapi::NFTA_RULE_HANDLE, handle);
        });
    }

    /// Adds a set or map; refused when it exists with other properties.
    pub fn add_set(&mut self, tag: u32, scope: Scope<'_>, set: &Set, create: Create) {
        self.sets += 1;
        let id = self.sets;
        self.message(tag, scope, uapi::NFT_MSG_NEWSET, create.flags(), |it| {
            set.put(it, id)
        });
    }

    /// Deletes a set; refused while a rule uses it.
    pub fn delete_set(&mut self, tag: u32, scope: Scope<'_>, set: &str) {
        self.message(tag, scope, uapi::NFT_MSG_DELSET, 0, |it| {
            it.string(uapi::NFTA_SET_NAME, set)
        });
    }

    /// Deletes all elements of a set.
    pub fn flush_set(&mut self, tag: u32, scope: Scope<'_>, set: &str) {
        self.message(tag, scope, uapi::NFT_MSG_DELSETELEM, 0, |it| {
            it.string(uapi::NFTA_SET_ELEM_LIST_SET, set)
        });
    }

    /// Adds an element. Consecutive elements of one set share a message.
    pub fn add_element(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        set: &str,
        element: &ElementRef<'_>,
        create: Create,
    ) {
        let head = head(scope, uapi::NFT_MSG_NEWSETELEM, create.flags());
        self.element(tag, scope, set, element, head);
    }

    /// Deletes the element with this key; refused when there is none.
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
        let head = head(scope, uapi::NFT_MSG_DELSETELEM, 0);
        self.element(tag, scope, set, &key, head);
    }

    /// The bytes to send before [`end`](Self::end), which is not stored: the caller can add changes
    /// after a refused commit.
    pub(crate) fn begin_and_changes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    /// The message that ends the transaction.
    pub(crate) fn end() -> AttrWriter {
        frame(uapi::NFNL_MSG_BATCH_END)
    }

    /// Tags of objects that are too long for a message. A batch with such objects must not be sent.
    pub(crate) fn oversized(&self) -> &[u32] {
        &self.oversized
    }

    /// The tags of the objects that an error is about: one when the kernel named the place, all of a
    /// message when it did not, none when the error is about the transaction as a whole.
    pub(crate) fn refused(&self, answer: &Answer) -> Vec<u32> {
        let index = (answer.sequence as usize).checked_sub(1);
        let Some(record) = index.and_then(|it| self.records.get(it)) else {
            return Vec::new();
        };
        let objects = &self.objects[record.objects.clone()];
        // The place is in the last element that begins before it, or before all elements.
        let place = answer.offset.map(|it| it as usize);
        let named = place.and_then(|place| objects.iter().rfind(|it| it.offset <= place));
        match named {
            Some(object) => vec![object.tag],
            None => objects.iter().map(|it| it.tag).collect(),
        }
    }

    /// The tag of an object of the message with this sequence number.
    #[cfg(feature = "testing")]
    pub(crate) fn tag(&self, sequence: u32, index: usize) -> u32 {
        let record = &self.records[sequence as usize - 1];
        self.objects[record.objects.start + index].tag
    }

    /// Adds a message about one object. Its first attribute is the table's name.
    fn message(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut AttrWriter),
    ) {
        self.open = None;
        self.begin(head(scope, kind, flags));
        put_table_name(&mut self.writer, scope.table);
        body(&mut self.writer);
        self.end_object(Object { tag, offset: 0 });
    }

    /// Adds an element to the last message, or to a new one.
    fn element(
        &mut self,
        tag: u32,
        scope: Scope<'_>,
        set: &str,
        element: &ElementRef<'_>,
        head: Head,
    ) {
        let list = match &self.open {
            Some(open)
                if open.head == head
                    && open.set == set
                    && open.table == scope.table
                    && self.writer.length_of(open.list) < ELEMENTS_PER_MESSAGE =>
            {
                open.list
            }
            _ => self.open_elements(scope, set, head),
        };
        let start = self.records.last().map_or(0, |it| it.start);
        let offset = self.writer.len() - start;
        put_element(&mut self.writer, element);
        self.writer.end(list);
        self.end_object(Object { tag, offset });
    }

    fn open_elements(&mut self, scope: Scope<'_>, set: &str, head: Head) -> Nest {
        self.begin(head);
        put_table_name(&mut self.writer, scope.table);
        self.writer.string(uapi::NFTA_SET_ELEM_LIST_SET, set);
        let list = self.writer.begin(uapi::NFTA_SET_ELEM_LIST_ELEMENTS);
        self.open = Some(OpenElements {
            head,
            table: scope.table.to_owned(),
            set: set.to_owned(),
            list,
        });
        list
    }

    /// The first message asks for an acknowledgement: the kernel reports every error, but success
    /// only where it was asked to, and only after it committed (`nfnetlink_rcv_batch`).
    fn begin(&mut self, mut head: Head) {
        if self.records.is_empty() {
            head.flags |= message::ACK;
        }
        self.records.push(Record {
            start: self.writer.len(),
            objects: self.objects.len()..self.objects.len(),
        });
        let sequence = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        message::begin(&mut self.writer, head, sequence);
    }

    /// Ends the last message behind one more object.
    fn end_object(&mut self, object: Object) {
        if let Some(record) = self.records.last_mut() {
            message::end(&mut self.writer, record.start);
            record.objects.end += 1;
        }
        if self.writer.take_oversized() {
            self.oversized.push(object.tag);
        }
        self.objects.push(object);
    }
}

fn head(scope: Scope<'_>, kind: u16, flags: u16) -> Head {
    Head {
        kind: (uapi::NFNL_SUBSYS_NFTABLES << 8) | kind,
        flags,
        first: [scope.family.number(), 0, 0, 0],
    }
}

/// A message that begins or ends a transaction. Its header has the subsystem at the end.
fn frame(kind: u16) -> AttrWriter {
    let mut writer = AttrWriter::new();
    let [high, low] = uapi::NFNL_SUBSYS_NFTABLES.to_be_bytes();
    let head = Head {
        kind,
        flags: 0,
        first: [0, 0, high, low],
    };
    let start = message::begin(&mut writer, head, 0);
    message::end(&mut writer, start);
    writer
}

#[cfg(test)]
mod tests;
