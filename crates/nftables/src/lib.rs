//! The nftables data plane: a plan as elements of named maps
