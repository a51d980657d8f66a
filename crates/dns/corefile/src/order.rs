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

/// Plugins of CoreDNS 1.13 that alter no answer: a block with them works as well without. Why, in a few words.
pub(crate) const NO_EFFECT: [(&str, &str); 9] = [
    ("debug", "a panic is always logged"),
    ("pprof", "profiles of Go's runtime do not exist here"),
    ("trace", "traces are not written"),
    ("dnstap", "dnstap is not written"),
    ("metadata", "no plugin here needs it"),
    ("geoip", "it provides metadata only"),
    ("cancel", "each query has a time limit"),
    ("timeouts", "the time limits of TCP are fixed"),
    ("multisocket", "there is one socket for each core"),
];

/// Plugins of CoreDNS 1.13 that are not here and that a block does not work without.
pub(crate) const NOT_HERE: [&str; 25] = [
    "tls",
    "quic",
    "grpc_server",
    "https",
    "https3",
    "local",
    "dns64",
    "tsig",
    "header",
    "dnssec",
    "transfer",
    "route53",
    "azure",
    "clouddns",
    "k8s_external",
    "file",
    "auto",
    "secondary",
    "etcd",
    "grpc",
    "erratic",
    "nomad",
    "on",
    "sign",
    "view",
];
