//! Tests against the kernel of this machine, each in a network namespace of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod follow;
mod kinds;
mod links;
mod namespaces;
#[path = "../../../netlink/tests/kernel/netns.rs"]
mod netns;
mod objects;
mod rtnetlink;
