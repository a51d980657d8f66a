//! The order of plugins.

/// The plugins of this crate in CoreDNS's order (`plugin.cfg` of 1.13): a query goes through them from first
/// to last, and its response back. Their order in a Corefile is of no importance.
pub const ORDER: [&str; 24] = [
    "root",
    "reload",
    "nsid",
    "bufsize",
    "bind",
    "ready",
    "health",
    "prometheus",
    "errors",
    "log",
    "acl",
    "any",
    "chaos",
    "loadbalance",
    "cache",
    "rewrite",
    "autopath",
    "minimal",
    "template",
    "hosts",
    "kubernetes",
    "loop",
    "forward",
    "whoami",
];
