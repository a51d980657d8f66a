//! A classic BPF program that lets only routes to most of the world through.

use libc::sock_filter;

use super::{RTM_DELROUTE, RTM_NEWROUTE};

/// Longest prefix that can be part of a default route: `0.0.0.0/1` and `128.0.0.0/1` are often
/// one, `2000::/3` is.
const LONGEST_PREFIX: u32 = 3;

/// Offset of `nlmsg_type`. One datagram of notices holds one message (`rtnl_notify`).
const TYPE_OFFSET: u32 = 4;

/// Offset of `rtm_dst_len`: the second byte of `rtmsg`.
const PREFIX_OFFSET: u32 = 17;

const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Drops notices of routes to anything smaller than a default route. A machine that speaks BGP
/// changes thousands of others.
pub(super) fn without_small_routes() -> [sock_filter; 7] {
    [
        instruction(LOAD_HALF, TYPE_OFFSET, [0, 0]),
        instruction(JUMP_EQUAL, loaded(RTM_NEWROUTE), [1, 0]),
        instruction(JUMP_EQUAL, loaded(RTM_DELROUTE), [0, 2]),
        instruction(LOAD_BYTE, PREFIX_OFFSET, [0, 0]),
        instruction(JUMP_GREATER, LONGEST_PREFIX, [1, 0]),
        instruction(RETURN, u32::MAX, [0, 0]),
        instruction(RETURN, 0, [0, 0]),
    ]
}

/// Loads are in network order, netlink headers are in host order.
fn loaded(kind: u16) -> u32 {
    u16::from_be_bytes(kind.to_ne_bytes()).into()
}

/// `skip`: how many instructions to leave out when a comparison holds, and when it does not.
fn instruction(code: u16, k: u32, skip: [u8; 2]) -> sock_filter {
    let [jt, jf] = skip;
    sock_filter { code, jt, jf, k }
}
