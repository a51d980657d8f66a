//! Numbers of `linux/netfilter/ipset/ip_set.h`.

/// `NFNL_SUBSYS_IPSET`.
pub(crate) const SUBSYSTEM: u16 = 6;

/// The oldest protocol version that kernels accept (`IPSET_PROTOCOL_MIN`).
pub(super) const PROTOCOL: u8 = 6;

pub(super) const IPSET_CMD_CREATE: u16 = 2;
pub(super) const IPSET_CMD_DESTROY: u16 = 3;
pub(super) const IPSET_CMD_SWAP: u16 = 6;
pub(super) const IPSET_CMD_LIST: u16 = 7;
pub(super) const IPSET_CMD_ADD: u16 = 9;
pub(super) const IPSET_CMD_DEL: u16 = 10;
pub(super) const IPSET_CMD_TEST: u16 = 11;
pub(super) const IPSET_CMD_TYPE: u16 = 13;

pub(super) const IPSET_ATTR_PROTOCOL: u16 = 1;
pub(super) const IPSET_ATTR_SETNAME: u16 = 2;
pub(super) const IPSET_ATTR_TYPENAME: u16 = 3;
/// The other set of a swap.
pub(super) const IPSET_ATTR_SETNAME2: u16 = 3;
pub(super) const IPSET_ATTR_REVISION: u16 = 4;
pub(super) const IPSET_ATTR_FAMILY: u16 = 5;
pub(super) const IPSET_ATTR_FLAGS: u16 = 6;
pub(super) const IPSET_ATTR_DATA: u16 = 7;
pub(super) const IPSET_ATTR_ADT: u16 = 8;
pub(super) const IPSET_ATTR_REVISION_MIN: u16 = 10;

/// Inside the data of sets and of members.
pub(super) const IPSET_ATTR_IP: u16 = 1;
pub(super) const IPSET_ATTR_CIDR: u16 = 3;
pub(super) const IPSET_ATTR_PORT: u16 = 4;
pub(super) const IPSET_ATTR_PORT_TO: u16 = 5;
pub(super) const IPSET_ATTR_PROTO: u16 = 7;
pub(super) const IPSET_ATTR_CADT_FLAGS: u16 = 8;

/// Inside the data of sets.
pub(super) const IPSET_ATTR_HASHSIZE: u16 = 18;
pub(super) const IPSET_ATTR_MAXELEM: u16 = 19;
pub(super) const IPSET_ATTR_REFERENCES: u16 = 25;

/// Inside the data of members.
pub(super) const IPSET_ATTR_IP2: u16 = 20;
pub(super) const IPSET_ATTR_CIDR2: u16 = 21;
pub(super) const IPSET_ATTR_SKBMARK: u16 = 27;

/// Inside an address.
pub(super) const IPSET_ATTR_IPADDR_IPV4: u16 = 1;
pub(super) const IPSET_ATTR_IPADDR_IPV6: u16 = 2;

/// List only names (`IPSET_FLAG_LIST_SETNAME`).
pub(super) const LIST_NAMES: u32 = 1 << 1;
/// List no members (`IPSET_FLAG_LIST_HEADER`).
pub(super) const LIST_HEADER: u32 = 1 << 2;
/// Members have marks (`IPSET_FLAG_WITH_SKBINFO`).
pub(super) const WITH_SKBINFO: u32 = 1 << 6;

/// `NLA_F_NET_BYTEORDER`: without it ipset refuses a number of more than one byte
/// (`ip_set_attr_netorder`).
pub(super) const NET_ORDER: u16 = 1 << 14;
