//! Tests against the kernel of this machine, each in a network namespace of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conntrack;
mod ipsets;
mod netns;
mod nfacct;
mod strangers;
mod vm_ipvs;
