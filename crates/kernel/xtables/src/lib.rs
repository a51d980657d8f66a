//! iptables as both data planes that use it see it: rules as values, their text, what they do with
//! a packet, the programs that load them, and whether somebody else changed them. Knows nothing of
//! Services.
//!
//! ```text
//! Rule ─▶ RuleList (text) ─▶ Script ─▶ `iptables-restore` ─▶ kernel
//!   ▲                                                          │
//!   └── parse (Ruleset) ◀────── `iptables-save` ◀──────────────┘
//!             └─▶ trace: packet in, outcome out
//! ```
//!
//! # Invariants
//!
//! - A rule is equal to what is read of its text, also after the kernel kept it.
//! - No text in a rule can end its line, its quotation or its command.
//! - Rules of others are read, kept and never changed.
//! - A script is the same whenever it is read.

pub mod extension;
pub mod parse;
pub mod probe;
pub mod programs;
pub mod random;
pub mod rule;
pub mod rule_list;
pub mod script;
pub mod text;

pub mod watch;
