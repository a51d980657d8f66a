//! The operations of nf_tables as a trait, so that programs can be tested without a kernel.

use sluice_netlink::{Family, RequestError, SocketError};

use crate::batch::Batch;
use crate::connection::CommitError;
use crate::generation::Generation;
use crate::object::{Chain, ElementRef, KernelRule, Set, Table};
use crate::scope::Scope;

/// A ruleset: the kernel's behind a [`Connection`](crate::Connection), or the fake of the module `testing`.
pub trait Kernel {
    /// Another connection to the same ruleset, for another thread.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    fn reopen(&self) -> Result<Self, SocketError>
    where
        Self: Sized;

    /// Applies all changes of the batch or none, and returns after the kernel's answer. A batch
    /// without changes is not sent.
    ///
    /// # Errors
    /// Any [`CommitError`].
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError>;

    /// All tables of a family, our own and others'.
    ///
    /// # Errors
    /// Any [`RequestError`].
    fn tables(&mut self, family: Family) -> Result<Vec<Table>, RequestError>;

    /// All chains of a table; none when there is no such table.
    ///
    /// # Errors
    /// Any [`RequestError`].
    fn chains(&mut self, scope: Scope<'_>) -> Result<Vec<Chain>, RequestError>;

    /// The rules of one chain, or of all chains of a table, in their order within each chain;
    /// none when there is no such table or chain.
    ///
    /// # Errors
    /// Any [`RequestError`].
    fn rules(
        &mut self,
        scope: Scope<'_>,
        chain: Option<&str>,
    ) -> Result<Vec<KernelRule>, RequestError>;

    /// All sets and maps of a table, without their elements, and how many elements each has; `None`
    /// before Linux 6.16, which does not say.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such table.
    fn sets(&mut self, scope: Scope<'_>) -> Result<Vec<(Set, Option<u32>)>, RequestError>;

    /// Shows every element of a set to `visit`, in the kernel's order. Memory does not grow with
    /// the set, but the kernel's time does, with its square: see the README.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such set;
    /// after [`RequestError::Interrupted`] what was shown is not to be trusted.
    fn for_each_element(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        visit: impl FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError>;

    /// Shows the elements of a set that have one of these keys to `visit`. The kernel's time grows
    /// with the number of keys alone, whatever the size of the set. In a set of ranges, an address finds
    /// the start of its range.
    ///
    /// # Errors
    /// Any [`RequestError`]; a set or table that does not exist has no elements.
    fn find_elements(
        &mut self,
        scope: Scope<'_>,
        set: &str,
        keys: &[impl AsRef<[u8]>],
        visit: impl FnMut(ElementRef<'_>),
    ) -> Result<(), RequestError>;

    /// The generation of the ruleset, which every program's transaction raises. Process id and name are those of the
    /// asking thread; only a [`super::Notice`] has those of the author.
    ///
    /// # Errors
    /// Any [`RequestError`].
    fn generation(&mut self) -> Result<Generation, RequestError>;
}
