//! Memory for values that do not fit on the stack.

use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use sluice_bpf_abi::Tuple;

use crate::flow::Connection;
use crate::packet::Packet;

/// Each CPU has its own, and runs one program of packets at a time. Zero at first; padding is never written.
pub struct Scratch {
    /// The packet that the program runs for.
    pub packet: Packet,
    /// The packet that an ICMP error is about.
    pub about: Packet,
    /// The addresses and ports that the packet is rewritten to.
    pub to: Tuple,
    /// The connection that the packet opens.
    pub connection: Connection,
}

#[btf_map]
pub static SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();

/// The scratch memory of this CPU.
#[inline(always)]
pub fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: no other program runs on this CPU until this one ends, and each borrows it once.
    SCRATCH.get_ptr_mut(0).map(|it| unsafe { &mut *it })
}
