//! Tests against the kernel of this machine, each in a network namespace of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod commit;
mod element;
mod elements;
mod expr;
mod fake;
mod monitor;
#[path = "../../../netlink/tests/kernel/netns.rs"]
mod netns;
mod nft;
mod objects;
mod strangers;
mod table;
mod text;
mod trace;
