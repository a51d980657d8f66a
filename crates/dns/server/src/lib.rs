//! The DNS server: sockets, and the plugins of a server block in CoreDNS's order.
