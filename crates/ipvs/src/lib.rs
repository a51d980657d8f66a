//! The IPVS data plane: virtual servers in the kernel, kube-proxy's ipsets and constant iptables rules.
