//! The resolver of this machine, or of this pod.

use std::fs;
use std::net::IpAddr;

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

/// The addresses of a file's name servers, without the interface of a link-local one. What is no address is left out.
pub(crate) fn servers(file: &ResolvConf<'_>) -> Vec<IpAddr> {
    let addresses = file.name_servers.iter();
    let addresses = addresses.filter_map(|it| it.split('%').next());
    addresses.filter_map(|it| it.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_resolvers_do() {
        let file = ResolvConf::read(
            "# comment\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver x\nsearch a b\nsearch lan\noptions ndots:2\n",
        );
        let expected: [IpAddr; 2] = ["192.0.2.1", "fe80::1"].map(|it| it.parse().unwrap());
        assert_eq!(servers(&file), expected);
        assert_eq!(file.search, ["lan"]);
    }
}
