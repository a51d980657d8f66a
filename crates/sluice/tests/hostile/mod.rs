//! One hostile tenant, one victim whose endpoint changes, a bystander, and probes of the agent's
//! health: what the tenant does costs the others nothing. Needs root.
//!
//! [`attack::Attack`] is a row of a table, [`play::play`] plays rows in one node. Asserted are the
//! order of what happens and bounds of work, never seconds: those are in `sluice-bench hostile`.

mod attack;
mod connections;
mod files;
mod forged;
mod objects;
mod play;
mod refusals;
mod robbery;
mod sizes;
mod storms;
mod world;

use play::play;
use sluice_lab::require_netns;
use world::Mode;

/// A test in each mode for each group of attacks.
macro_rules! in_each_mode {
    ($($group:ident),*) => {$(
        mod $group {
            use super::*;

            #[test]
            fn nftables() {
                require_netns!();
                play(Mode::Nftables, crate::hostile::$group::attacks(Mode::Nftables));
            }

            #[test]
            fn iptables() {
                require_netns!();
                play(Mode::Iptables, crate::hostile::$group::attacks(Mode::Iptables));
            }
        }
    )*};
}

mod attacks {
    use super::*;
    in_each_mode!(connections, files, robbery, sizes, storms);
}
