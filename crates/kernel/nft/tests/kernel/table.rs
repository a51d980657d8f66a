//! A table for one test.

use sluice_nft::{Batch, Connection, Create, Family, Kernel as _, Scope};

use crate::netns::program;

pub(crate) const SCOPE: Scope<'static> = Scope {
    family: Family::Ipv4,
    table: "t",
};

/// What `nft` prints; lists the ruleset with numbers for addresses and ports.
#[track_caller]
pub(crate) fn nft_list() -> String {
    program("nft", &["-nn", "list", "ruleset"], "")
}

/// A batch that begins with an empty table.
pub(crate) fn batch_with_table() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(0, SCOPE, None, Create::New);
    batch
}

/// Commits what `fill` adds to an empty table.
#[track_caller]
pub(crate) fn commit(fill: impl FnOnce(&mut Batch)) -> Connection {
    let mut connection = Connection::open().unwrap();
    let mut batch = batch_with_table();
    fill(&mut batch);
    connection.commit(&batch).unwrap();
    connection
}
