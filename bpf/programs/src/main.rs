//! The programs.
#![no_std]
#![no_main]

mod maps;

use aya_ebpf::bindings::TC_ACT_UNSPEC;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;

#[classifier]
pub fn sluice_ingress(ctx: TcContext) -> i32 {
    let key = sluice_bpf_abi::AddressKey { addr: sluice_bpf_abi::Addr::v4(ctx.len()), kind: 1 };
    if unsafe { maps::ADDRESSES.get(&key) }.is_some() {
        return 2;
    }
    TC_ACT_UNSPEC
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
