//! Deletes the connections and the nftables tables of a namespace, over netlink, without a process.

use std::os::fd::AsRawFd;

use nix::{
    errno::Errno,
    libc,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    },
};

use sluice_lab::{LabError, Netns};

/// `IPCTNL_MSG_CT_DELETE` of `NFNL_SUBSYS_CTNETLINK`: without attributes, everything.
const DELETE_CONNECTIONS: u16 = 1 << 8 | 2;
/// `NFT_MSG_DELTABLE` of `NFNL_SUBSYS_NFTABLES`: without attributes, all tables of all families.
const DELETE_TABLES: u16 = 10 << 8 | 2;
/// `NFNL_MSG_BATCH_BEGIN` and `_END`; nf_tables takes its messages between them only.
const BATCH: [u16; 2] = [0x10, 0x11];
/// The subsystem of a batch, in network byte order.
const NFTABLES: [u8; 2] = [0, 10];

/// Deletes every conntrack entry and every nftables table of `netns`, also iptables-nft's tables.
pub(crate) fn flush(netns: &Netns) -> Result<(), LabError> {
    let connections = message(DELETE_CONNECTIONS, libc::NLM_F_ACK, [0; 2]);
    let tables = [
        message(BATCH[0], 0, NFTABLES),
        message(DELETE_TABLES, libc::NLM_F_ACK, [0; 2]),
        message(BATCH[1], 0, NFTABLES),
    ];
    let failed = |op| move |errno: Errno| LabError::io(op, netns.name())(errno.into());
    netns.run(|| {
        send(&tables.concat()).map_err(failed("delete tables of"))?;
        send(&connections).map_err(failed("delete connections of"))
    })
}

/// `struct nlmsghdr` and `struct nfgenmsg`, for no family in particular.
fn message(kind: u16, flags: libc::c_int, resource: [u8; 2]) -> Vec<u8> {
    const LENGTH: u32 = 20;
    let flags = u16::try_from(libc::NLM_F_REQUEST | flags).expect("flags have 16 bits");
    let mut message = LENGTH.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number and port, family and version.
    message.extend([0; 10]);
    message.extend(resource);
    message
}

/// Sends, and reads the acknowledgement.
fn send(messages: &[u8]) -> Result<(), Errno> {
    let protocol = SockProtocol::NetlinkNetFilter;
    let family = AddressFamily::Netlink;
    let fd = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(fd.as_raw_fd(), messages, &kernel, MsgFlags::empty())?;
    let mut answer = [0; 256];
    let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    // `struct nlmsgerr` begins with the negative error number.
    let code = answer[..length].get(16..20).ok_or(Errno::EPROTO)?;
    let code = i32::from_ne_bytes(code.try_into().expect("these are four bytes"));
    match code {
        0 => Ok(()),
        error => Err(Errno::from_raw(-error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_remains_and_an_empty_namespace_is_no_error() {
        sluice_lab::require_netns!();
        let netns = Netns::new("flush").expect("namespaces can be made");
        let nft = |words: &[&str]| {
            let output = netns.command("nft", words).output();
            String::from_utf8(output.expect("nft is installed").stdout).expect("nft writes text")
        };
        nft(&["add table ip a; add table inet b; add chain inet b c; add rule inet b c accept"]);
        assert_ne!(nft(&["list", "ruleset"]), "");
        for _ in 0..2 {
            flush(&netns).expect("the kernel has nf_tables");
            assert_eq!(nft(&["list", "ruleset"]), "");
        }
    }
}
