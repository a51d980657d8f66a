//! The iptables data plane: kube-proxy's chains, written by iptables-restore.
