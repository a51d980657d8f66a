//! Lists the objects in the kernel.

use nix::errno::Errno;

use sluice_netlink::attr::AttrWriter;
use sluice_netlink::bulk::Bulk;
use sluice_netlink::message::{Head, Message};
use sluice_netlink::request::{Request, RequestError, unless};

use super::connection::Connection;
use super::generation::Generation;
use super::object::{
    Chain, ElementRef, KernelRule, Set, Table, counted, put_element, put_table_name,
};
use super::scope::{Family, Scope};
use super::uapi;

/// Keys that are asked for in one datagram. Each answer takes about a kilobyte of the receive
/// queue, so all of them fit into the smallest queue that Linux gives by default (208 KiB). More
/// at once are no faster (500,000 keys: 0.35 s by 64, 0.38 s by 256, 0.38 s by 1,000).
const KEYS: usize = 128;

impl Connection {
    /// All tables of a family, our own and others'.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn tables(&mut self, family: Family) -> Result<Vec<Table>, RequestError> {
        let mut tables = Vec::new();
        self.list(
            "list",
            "tables",
            uapi::NFT_MSG_GETTABLE,
            family,
            &|_| {},
            &mut |message| {
                tables.extend(Table::decode(&message.attrs()));
            },
        )?;
        Ok(tables)
    }

    /// All chains of a table; none when there is no such table.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn chains(&mut self, scope: Scope<'_>) -> Result<Vec<Chain>, RequestError> {
        let mut chains = Vec::new();
        self.within(
            "list chains of",
            scope,
            uapi::NFT_MSG_GETCHAIN,
            &|_| {},
            &mut |message| {
                chains.extend(Chain::decode(&message.attrs()));
            },
        )?;
        Ok(chains)
    }

    /// The rules of one chain, or of all chains of a table, in their order within each chain;
    /// none when there is no such table or chain.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn rules(
        &mut self,
        scope: Scope<'_>,
        chain: Option<&str>,
    ) -> Result<Vec<KernelRule>, RequestError> {
        let mut rules = Vec::new();
        let attrs = |writer: &mut AttrWriter| {
            if let Some(chain) = chain {
                writer.string(uapi::NFTA_RULE_CHAIN, chain);
            }
        };
        self.within(
            "list rules of",
            scope,
            uapi::NFT_MSG_GETRULE,
            &attrs,
            &mut |message| {
                let rule = KernelRule::decode(&message.attrs());
                rules.extend(rule.filter(|it| chain.is_none_or(|chain| it.chain == chain)));
            },
        )?;
        Ok(rules)
    }

    /// The packets that each rule of a chain has counted, in their order; `None` for a rule without a
    /// counter. None when there is no such table or chain.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn rule_packets(
        &mut self,
        scope: Scope<'_>,
        chain: &str,
    ) -> Result<Vec<Option<u64>>, RequestError> {
        let mut packets = Vec::new();
        self.within(
            "list counters of",
            scope,
            uapi::NFT_MSG_GETRULE,
            &|writer| writer.string(uapi::NFTA_RULE_CHAIN, chain),
            &mut |message| {
                let attrs = message.attrs();
                if attrs.str(uapi::NFTA_RULE_CHAIN) == Some(chain) {
                    let mut exprs = attrs.nested(uapi::NFTA_RULE_EXPRESSIONS);
                    packets.push(exprs.find_map(|it| counted(&it.nested())));
                }
            },
        )?;
        Ok(packets)
    }

    /// All sets and maps of a table, without their elements, and how many elements each has; `None`
    /// before Linux 6.16, which does not say.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such table.
    pub fn sets(&mut self, scope: Scope<'_>) -> Result<Vec<(Set, Option<u32>)>, RequestError> {
        let mut sets = Vec::new();
        self.within(
            "list sets of",
            scope,
            uapi::NFT_MSG_GETSET,
            &|_| {},
            &mut |message| {
                let attrs = message.attrs();
                let count = attrs.u32_be(uapi::NFTA_SET_COUNT);
                sets.extend(Set::decode(&attrs).map(|set| (set, count)));
            },
        )?;
        Ok(sets)
    }

    /// A set or map by its name, also an anonymous one, without its elements; `None` when there is
    /// no such set or table.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn set(&mut self, scope: Scope<'_>, name: &str) -> Result<Option<Set>, RequestError> {
        let mut set = None;
        let request = Request::new("read set", name, kind(uapi::NFT_MSG_GETSET), |writer| {
            put_table_name(writer, scope.table);
            writer.string(uapi::NFTA_SET_NAME, name);
        })
        .family(scope.family.number());
        let found = request.ask(&mut self.socket, &mut self.buffer, &mut |message| {
            set = Set::decode(&message.attrs());
        });
        unless(Errno::ENOENT, found).map(|_| set)
    }

    /// Shows every element of a set to `visit`, in the kernel's order. Memory does not grow with
    /// the set, but the kernel's time does, with its square: see the README.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such set;
    /// after [`RequestError::Interrupted`] what was shown is not to be trusted.
    pub fn for_each_element(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        mut visit: impl FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError> {
        let attrs = |writer: &mut AttrWriter| put_set(writer, scope, set);
        let kind = uapi::NFT_MSG_GETSETELEM;
        self.list(
            "list elements of",
            set,
            kind,
            scope.family,
            &attrs,
            &mut |message| elements(message, &mut visit),
        )
    }

    /// Shows the elements of a set that have one of these keys to `visit`. The kernel's time grows
    /// with the number of keys alone, whatever the size of the set. In a set of ranges, an address finds
    /// the start of its range.
    ///
    /// # Errors
    /// Any [`RequestError`]; a set or table that does not exist has no elements.
    pub fn find_elements(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        keys: &[impl AsRef<[u8]>],
        mut visit: impl FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError> {
        let head = Head {
            kind: kind(uapi::NFT_MSG_GETSETELEM),
            flags: 0,
            first: [scope.family.number(), 0, 0, 0],
        };
        for keys in keys.chunks(KEYS) {
            let questions = Bulk {
                changes: keys,
                name: &|_| ("find element of", set.to_owned()),
                head: &|_| head,
                attrs: &|key, writer| {
                    put_set(writer, scope, set);
                    let element = ElementRef {
                        key: key.as_ref(),
                        ..ElementRef::default()
                    };
                    writer.nested(uapi::NFTA_SET_ELEM_LIST_ELEMENTS, |list| {
                        put_element(list, &element)
                    });
                },
                // Before Linux 5.13 there is no catch-all element, and asking for it is invalid.
                is_done: &|key, errno| {
                    errno == Errno::ENOENT || (errno == Errno::EINVAL && key.as_ref().is_empty())
                },
            };
            let visit = &mut |message: &Message<'_>| elements(message, &mut visit);
            let mut failures = questions.ask(&mut self.socket, &mut self.buffer, visit)?;
            if let Some(failure) = failures.pop() {
                return Err(failure.error);
            }
        }
        Ok(())
    }

    /// The generation of the ruleset, which every program's transaction raises. Process id and name are those of the
    /// asking thread; only a [`super::Notice`] has those of the author.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn generation(&mut self) -> Result<Generation, RequestError> {
        let mut generation = Generation::default();
        let request = Request::new(
            "read",
            "ruleset generation",
            kind(uapi::NFT_MSG_GETGEN),
            |_| {},
        );
        request.ask(&mut self.socket, &mut self.buffer, &mut |message| {
            generation = Generation::decode(&message.attrs());
        })?;
        Ok(generation)
    }

    /// Lists objects whose first attribute is the table's name.
    pub(super) fn within(
        &mut self,
        operation: &'static str,
        scope: Scope<'_>,
        message: u16,
        attrs: &dyn Fn(&mut AttrWriter),
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        let attrs = |writer: &mut AttrWriter| {
            put_table_name(writer, scope.table);
            attrs(writer);
        };
        self.list(
            operation,
            scope.table,
            message,
            scope.family,
            &attrs,
            &mut |message| {
                // The kernel ignores the table's name for some kinds of objects.
                let table = message.attrs().str(uapi::NFTA_TABLE_NAME);
                if table == Some(scope.table) {
                    visit(message);
                }
            },
        )
    }

    fn list(
        &mut self,
        operation: &'static str,
        object: &str,
        message: u16,
        family: Family,
        attrs: &dyn Fn(&mut AttrWriter),
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        let request = Request::new(operation, object, kind(message), attrs).family(family.number());
        request.dump(&mut self.socket, &mut self.buffer, visit)
    }
}

fn put_set(writer: &mut AttrWriter, scope: Scope<'_>, set: &str) {
    put_table_name(writer, scope.table);
    writer.string(uapi::NFTA_SET_ELEM_LIST_SET, set);
}

/// Shows the elements of a message to `visit`.
fn elements(message: &Message<'_>, visit: &mut impl FnMut(ElementRef<'_>)) {
    if let Some(list) = message.attrs().find(uapi::NFTA_SET_ELEM_LIST_ELEMENTS) {
        let elements = list.nested().filter_map(ElementRef::decode);
        elements.for_each(visit);
    }
}

pub(super) fn kind(message: u16) -> u16 {
    (uapi::NFNL_SUBSYS_NFTABLES << 8) | message
}
