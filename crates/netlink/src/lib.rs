//! Netlink sockets and messages for nf_tables and conntrack
