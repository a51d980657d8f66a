//! The node agent: the loop from source to kernel, health, status, conntrack cleanup
