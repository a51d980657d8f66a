//! Numbers of `linux/ip_vs.h` and `linux/genetlink.h`.

/// `GENL_ID_CTRL`: the family that tells the numbers of the others.
pub(super) const CONTROLLER: u16 = 0x10;
pub(super) const CTRL_CMD_GETFAMILY: u8 = 3;
pub(super) const CTRL_ATTR_FAMILY_ID: u16 = 1;
pub(super) const CTRL_ATTR_FAMILY_NAME: u16 = 2;

pub(super) const IPVS_CMD_NEW_SERVICE: u8 = 1;
pub(super) const IPVS_CMD_SET_SERVICE: u8 = 2;
pub(super) const IPVS_CMD_DEL_SERVICE: u8 = 3;
pub(super) const IPVS_CMD_GET_SERVICE: u8 = 4;
pub(super) const IPVS_CMD_NEW_DEST: u8 = 5;
pub(super) const IPVS_CMD_SET_DEST: u8 = 6;
pub(super) const IPVS_CMD_DEL_DEST: u8 = 7;
pub(super) const IPVS_CMD_GET_DEST: u8 = 8;
pub(super) const IPVS_CMD_SET_CONFIG: u8 = 12;

pub(super) const IPVS_CMD_ATTR_SERVICE: u16 = 1;
pub(super) const IPVS_CMD_ATTR_DEST: u16 = 2;
pub(super) const IPVS_CMD_ATTR_TIMEOUT_TCP: u16 = 4;
pub(super) const IPVS_CMD_ATTR_TIMEOUT_TCP_FIN: u16 = 5;
pub(super) const IPVS_CMD_ATTR_TIMEOUT_UDP: u16 = 6;

pub(super) const IPVS_SVC_ATTR_AF: u16 = 1;
pub(super) const IPVS_SVC_ATTR_PROTOCOL: u16 = 2;
pub(super) const IPVS_SVC_ATTR_ADDR: u16 = 3;
pub(super) const IPVS_SVC_ATTR_PORT: u16 = 4;
pub(super) const IPVS_SVC_ATTR_FWMARK: u16 = 5;
pub(super) const IPVS_SVC_ATTR_SCHED_NAME: u16 = 6;
pub(super) const IPVS_SVC_ATTR_FLAGS: u16 = 7;
pub(super) const IPVS_SVC_ATTR_TIMEOUT: u16 = 8;
pub(super) const IPVS_SVC_ATTR_NETMASK: u16 = 9;

pub(super) const IPVS_DEST_ATTR_ADDR: u16 = 1;
pub(super) const IPVS_DEST_ATTR_PORT: u16 = 2;
pub(super) const IPVS_DEST_ATTR_FWD_METHOD: u16 = 3;
pub(super) const IPVS_DEST_ATTR_WEIGHT: u16 = 4;
pub(super) const IPVS_DEST_ATTR_U_THRESH: u16 = 5;
pub(super) const IPVS_DEST_ATTR_L_THRESH: u16 = 6;
pub(super) const IPVS_DEST_ATTR_ACTIVE_CONNS: u16 = 7;
pub(super) const IPVS_DEST_ATTR_INACT_CONNS: u16 = 8;
pub(super) const IPVS_DEST_ATTR_ADDR_FAMILY: u16 = 11;
pub(super) const IPVS_DEST_ATTR_STATS64: u16 = 12;

pub(super) const IPVS_STATS_ATTR_CONNS: u16 = 1;

/// `IP_VS_CONN_F_FWD_MASK`.
pub(super) const FORWARDING_MASK: u32 = 7;

/// Set by the kernel alone (`IP_VS_SVC_F_HASHED`).
pub(super) const SVC_HASHED: u32 = 2;

/// The longest name of a scheduler in bytes (`IP_VS_SCHEDNAME_MAXLEN` less the NUL).
pub(super) const SCHEDULER_NAME: usize = 15;
