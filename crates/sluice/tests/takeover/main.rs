//! Following a kube-proxy on a node, and making room for one, under traffic.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod ebpf;
mod ebpf_trace;
mod kube_proxy;
mod modes;
mod moves;
mod packets;
mod vm_connections;
mod vm_ipvs;
mod world;
