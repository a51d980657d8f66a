//! Following a kube-proxy on a node, and making room for one, under traffic.

mod ebpf;
mod ebpf_trace;
mod everybody;
mod kube_proxy;
mod modes;
mod moves;
mod packets;
mod vm_connections;
mod vm_ipvs;
mod world;
