//! The resolver of this machine, or of this pod.

use std::fs;

use hickory_proto::rr::Name;
use sluice_corefile::ResolvConf;

/// Where it is configured.
pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A machine without a resolver is a node all the same.
fn text() -> String {
    fs::read_to_string(RESOLV_CONF).unwrap_or_default()
}

/// Whether it has a server to ask.
pub(crate) fn has_server() -> bool {
    !ResolvConf::read(&text()).name_servers.is_empty()
}

/// Its search path, as kubelet adds it to that of pods.
pub(crate) fn search_path() -> Vec<Name> {
    let text = text();
    let names = ResolvConf::read(&text).search.into_iter();
    names.filter_map(|it| Name::from_ascii(it).ok()).collect()
}
