//! A classic BPF program that drops datagrams by the port id of whoever caused them.

use libc::sock_filter;

/// Offset of `nlmsg_pid` in `nlmsghdr`. A datagram of notices is about one transaction
/// (`nft_commit_notify`), so its first header speaks for all.
const PORT_OFFSET: u32 = 12;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The kernel takes at most `BPF_MAXINSNS` = 4096 instructions.
const MOST_PORTS: usize = 2000;

/// Keeps everything but what came from these ports; ports beyond the first 2000 are kept too.
pub(super) fn dropping(port_ids: &[u32]) -> Vec<sock_filter> {
    let mut program = vec![instruction(LOAD_WORD, 0, PORT_OFFSET)];
    for port in port_ids.iter().take(MOST_PORTS) {
        // The load is in network order, netlink headers are in host order.
        program.push(instruction(
            JUMP_EQUAL,
            1,
            u32::from_be_bytes(port.to_ne_bytes()),
        ));
        program.push(instruction(RETURN, 0, 0));
    }
    program.push(instruction(RETURN, 0, u32::MAX));
    program
}

fn instruction(code: u16, skip_when_false: u8, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: skip_when_false,
        k,
    }
}
