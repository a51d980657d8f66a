//! Classic BPF filters for sockets: the kernel drops messages before they reach the socket.

use libc::sock_filter;

const LOAD: u32 = libc::BPF_LD | libc::BPF_ABS;
const LOAD_BYTE: u32 = LOAD | libc::BPF_B;
const LOAD_HALF: u32 = LOAD | libc::BPF_H;
const LOAD_WORD: u32 = LOAD | libc::BPF_W;
const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const DROP: u32 = 0;
const ACCEPT: u32 = u32::MAX;

/// Offset of `nlmsg_type`.
const TYPE_OFFSET: u32 = 4;
/// Offset of `nlmsg_pid`.
const PORT_OFFSET: u32 = 12;
/// Offset of `rtm_dst_len`, the second byte of `rtmsg`.
const PREFIX_OFFSET: u32 = 17;

/// The kernel permits `BPF_MAXINSNS` = 4096 instructions.
const MOST_PORTS: usize = 2000;

/// Drops the notices about changes of these port ids; ids beyond the first 2000 are not dropped. One
/// datagram of notices is about one transaction (`nft_commit_notify`), so its first header decides.
pub fn without_ports(port_ids: &[u32]) -> Vec<sock_filter> {
    let mut program = vec![instruction(LOAD_WORD, PORT_OFFSET, [0, 0])];
    for port in port_ids.iter().take(MOST_PORTS) {
        let port = u32::from_be_bytes(port.to_ne_bytes());
        program.push(instruction(JUMP_EQUAL, port, [0, 1]));
        program.push(instruction(RETURN, DROP, [0, 0]));
    }
    program.push(instruction(RETURN, ACCEPT, [0, 0]));
    program
}

/// Drops the notices of these two types about a route with a prefix longer than `longest`. One
/// datagram holds one notice (`rtnl_notify`).
pub fn without_small_routes(types: [u16; 2], longest: u32) -> [sock_filter; 7] {
    let [first, second] = types.map(|it| u16::from_be_bytes(it.to_ne_bytes()).into());
    [
        instruction(LOAD_HALF, TYPE_OFFSET, [0, 0]),
        instruction(JUMP_EQUAL, first, [1, 0]),
        instruction(JUMP_EQUAL, second, [0, 2]),
        instruction(LOAD_BYTE, PREFIX_OFFSET, [0, 0]),
        instruction(JUMP_GREATER, longest, [1, 0]),
        instruction(RETURN, ACCEPT, [0, 0]),
        instruction(RETURN, DROP, [0, 0]),
    ]
}

/// `skip`: how many instructions a comparison skips when it holds, and when it does not. A program
/// loads in network order, netlink headers are in host order.
fn instruction(code: u32, k: u32, skip: [u8; 2]) -> sock_filter {
    let [jt, jf] = skip;
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}
