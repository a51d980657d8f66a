//! iptables as both data planes that use it see it: rules as values, their text, what they do with
//! a packet, and the programs that load them.
//!
//! ```text
//! Rule ─▶ text.rs  ─▶ `iptables-restore` ─▶ kernel
//!   ▲                                        │
//!   └── parse.rs ◀── `iptables-save` ◀───────┘
//! ```

pub mod parse;
pub mod programs;
pub mod random;
pub mod rule;
pub mod script;
pub mod text;
pub mod trace;
