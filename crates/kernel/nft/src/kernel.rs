//! The operations of nf_tables as a trait, so that programs can be tested without a kernel.

use sluice_netlink::{Family, RequestError};

use crate::batch::Batch;
use crate::connection::{CommitError, Connection};
use crate::object::{Chain, ElementRef, KernelRule, Set, Table};
use crate::scope::Scope;

/// A [`Connection`], or the fake of the module `testing`. Methods and errors are those of [`Connection`].
pub trait Kernel {
    /// [`Connection::commit`].
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError>;

    /// [`Connection::tables`].
    fn tables(&mut self, family: Family) -> Result<Vec<Table>, RequestError>;

    /// [`Connection::chains`].
    fn chains(&mut self, scope: Scope<'_>) -> Result<Vec<Chain>, RequestError>;

    /// [`Connection::rules`].
    fn rules(
        &mut self,
        scope: Scope<'_>,
        chain: Option<&str>,
    ) -> Result<Vec<KernelRule>, RequestError>;

    /// [`Connection::sets`].
    fn sets(&mut self, scope: Scope<'_>) -> Result<Vec<(Set, Option<u32>)>, RequestError>;

    /// [`Connection::for_each_element`].
    fn for_each_element(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        visit: &mut dyn FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError>;
}

impl Kernel for Connection {
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        self.commit(batch)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>, RequestError> {
        self.tables(family)
    }

    fn chains(&mut self, scope: Scope<'_>) -> Result<Vec<Chain>, RequestError> {
        self.chains(scope)
    }

    fn rules(
        &mut self,
        scope: Scope<'_>,
        chain: Option<&str>,
    ) -> Result<Vec<KernelRule>, RequestError> {
        self.rules(scope, chain)
    }

    fn sets(&mut self, scope: Scope<'_>) -> Result<Vec<(Set, Option<u32>)>, RequestError> {
        self.sets(scope)
    }

    fn for_each_element(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        visit: &mut dyn FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError> {
        self.for_each_element(scope, set, visit)
    }
}
