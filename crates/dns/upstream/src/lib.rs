//! Answers of other servers: forwarding, the cache of answers, detection of loops.
//!
//! ```text
//! Question ─Cache::lookup─▶ hit: response
//!                      └──▶ miss ─Forwarder::exchange─▶ response ─Cache::store─▶ response
//! ```
//!
//! The queries are sent here and not by a library, whose wire format (`hickory-proto`) is used:
//! `hickory-resolver` turns answers into lookups and has neither CoreDNS's policies nor its health
//! checks. The sockets of `hickory-net` 0.26 are not connected, so that a closed port costs a
//! whole timeout before the next upstream is asked, and on connections it compares only the ids of
//! answers, not their questions.
//!
//! Invariants:
//! - Each UDP query has a socket and an id of its own, both random. An answer counts only when it
//!   comes from the upstream's address with the same id and question; all others are ignored.
//! - A response has only records that belong to its question.
//! - Equal questions that are asked at the same time are one query.
//! - Memory is bounded: the cache in entries and bytes, queries under way in number.
//! - OPT is for one hop: no EDNS0 option passes between client and upstream.

mod cache;
mod check;
mod forward;
mod looping;
mod question;

pub use cache::{Cache, Counter, Counters, ExpiredAnswer, Half, Lookup, is_answer};
pub use check::Unusable;
pub use forward::{Failure, Forwarder, Observer, Origin, Proto, SetupError, Transport};
pub use looping::LoopProbe;
pub use question::Question;
