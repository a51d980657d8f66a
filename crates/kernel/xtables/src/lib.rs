//! iptables without Services: rules as values, their text, the programs that load them, and whether
//! another program changed them.
//!
//! ```text
//! Rule ─▶ RuleList (text) ─▶ Script ─▶ `iptables-restore` ─▶ kernel
//!   ▲                                                          │
//!   └── parse (Ruleset) ◀────── `iptables-save` ◀──────────────┘
//! ```
//!
//! # Invariants
//!
//! - A rule is equal to the rule that is read from its text, also from the kernel.
//! - No text in a rule can end its line, its quotation or its command.
//! - Rules of others are read as text and never changed.
//! - A script is the same each time it is read.

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
