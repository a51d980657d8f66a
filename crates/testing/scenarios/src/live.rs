//! Asks a data plane what the kernel does with packets, beside the plan.

use std::net::IpAddr;
use std::process::Command;

use sluice_plan::Planner;
use sluice_plan::explain::{self, Explanation};
use sluice_plan::lookup::Packet;
use sluice_plan::state::HostAddresses;
use sluice_plane::{DataPlane, Live};

/// Gives loopback of the calling thread's namespace these addresses.
///
/// # Panics
/// When `ip` fails.
pub fn give_addresses<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) {
    for address in addresses.into_iter().filter(|it| !it.is_loopback()) {
        let address = address.to_string();
        let args = ["address", "add", &address, "dev", "lo"];
        let status = Command::new("ip").args(args).status();
        assert!(status.is_ok_and(|it| it.success()), "ip {args:?}");
    }
}

/// The explanation of a packet in the words of `sluice explain`, and what the kernel does with it.
///
/// # Panics
/// When the words name no packet, or the kernel cannot be read.
pub fn ask<P: DataPlane>(planner: &Planner, from: &str, to: &str) -> (Explanation, Live) {
    let explanation = explain::answer(planner, from, to, None).expect("the words name a packet");
    let live = P::live(&explanation).expect("the kernel can be read");
    (explanation, live)
}

/// Asserts that the kernel does with a packet what the plan says.
///
/// # Panics
/// When it does not.
pub fn assert_agrees<P: DataPlane>(planner: &Planner, packet: &Packet, host: &HostAddresses) {
    let explanation = explain::explain(planner, packet, host);
    let live = P::live(&explanation).expect("the kernel can be read");
    assert!(live.differences.is_empty(), "{explanation}\n{live}");
}
