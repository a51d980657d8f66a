//! What the kernel holds.

use crate::attr::AttrWriter;
use crate::message::Message;
use crate::request::{Request, RequestError};

use super::connection::Connection;
use super::generation::Generation;
use super::object::{Chain, ElementRef, Rule, Set, Table, put_table_name};
use super::scope::{Family, Scope};
use super::uapi;

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
    ) -> Result<Vec<Rule>, RequestError> {
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
                let rule = Rule::decode(&message.attrs());
                rules.extend(rule.filter(|it| chain.is_none_or(|chain| it.chain == chain)));
            },
        )?;
        Ok(rules)
    }

    /// All sets and maps of a table, without their elements.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such table.
    pub fn sets(&mut self, scope: Scope<'_>) -> Result<Vec<Set>, RequestError> {
        let mut sets = Vec::new();
        self.within(
            "list sets of",
            scope,
            uapi::NFT_MSG_GETSET,
            &|_| {},
            &mut |message| {
                sets.extend(Set::decode(&message.attrs()));
            },
        )?;
        Ok(sets)
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
        let attrs = |writer: &mut AttrWriter| {
            put_table_name(writer, scope.table);
            writer.string(uapi::NFTA_SET_ELEM_LIST_SET, set);
        };
        let kind = uapi::NFT_MSG_GETSETELEM;
        self.list(
            "list elements of",
            set,
            kind,
            scope.family,
            &attrs,
            &mut |message| {
                if let Some(list) = message.attrs().find(uapi::NFTA_SET_ELEM_LIST_ELEMENTS) {
                    list.nested()
                        .filter_map(ElementRef::decode)
                        .for_each(&mut visit);
                }
            },
        )
    }

    /// The number of the ruleset, which every transaction of anybody raises. Process id and name
    /// are those of the asking thread; only a [`super::Notice`] has those of the author.
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

fn kind(message: u16) -> u16 {
    (uapi::NFNL_SUBSYS_NFTABLES << 8) | message
}
