//! The rules of one frontend, as the host's programs list them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, ensure};

use crate::{Node, Protocol};

/// The rule of a NodePort that counts connections from the node itself.
const LOOPBACK: &str = " -d 127.0.0.0/8 ";

/// A frontend, as rules show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialled {
    pub(super) target: SocketAddr,
    pub(super) protocol: Protocol,
    /// Whether rules match the port alone.
    pub(super) is_node_port: bool,
}

impl Dialled {
    /// The protocol in rules and commands.
    pub(super) fn protocol(&self) -> &'static str {
        match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }

    /// The command that lists these rules, for the reader.
    pub(super) fn command(&self, mode: &str) -> String {
        let family = if self.target.is_ipv4() { "ip" } else { "ip6" };
        match mode {
            "iptables" => format!("{family}tables-save -t nat"),
            "ipvs" => "ipvsadm -Ln".to_owned(),
            _ => format!("nft list table {family} sluice"),
        }
    }

    /// The rules of a node, one per line.
    pub(super) fn rules(&self, node: &Node, mode: &str) -> anyhow::Result<String> {
        let line = self.command(mode);
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        let output = node
            .netns()
            .command(program, &words.collect::<Vec<_>>())
            .output()
            .with_context(|| format!("run {program}"))?;
        ensure!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let listing = String::from_utf8_lossy(&output.stdout);
        let found = match mode {
            "iptables" => self.of_iptables(&listing),
            "ipvs" => self.of_ipvs(&listing),
            _ => self.of_nftables(&listing),
        };
        Ok(found.join("\n"))
    }

    /// The elements whose key is the frontend: the verdict, then the endpoints.
    fn of_nftables(&self, listing: &str) -> Vec<String> {
        let (ip, port) = (self.target.ip(), self.target.port());
        let key = if self.is_node_port {
            format!("{} . {port} ", self.protocol())
        } else {
            format!("{ip} . {} . {port} ", self.protocol())
        };
        let mut found: Vec<[String; 3]> = Vec::new();
        let mut map = "";
        for line in listing.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("map ") {
                map = name.trim_end_matches(" {");
            }
            let element = line.trim_start_matches("elements = {").trim();
            let element = element.trim_end_matches([',', '}', ' ']);
            // A comment stands between key and value; both have ` . `, neither has ` : `.
            let parts = element
                .split_once(" : ")
                .filter(|_| element.starts_with(&key));
            if let Some((left, value)) = parts {
                let (key, comment) = left.split_once(" comment ").unwrap_or((left, "/"));
                // A name without namespace is a pod's.
                let pod = Some(comment.trim_matches('"')).filter(|it| !it.contains('/'));
                let value = pod.map_or_else(|| value.to_owned(), |it| format!("{value}  {it}"));
                found.push([map.to_owned(), key.to_owned(), value]);
            }
        }
        let widest = |column: usize| found.iter().map(|it| it[column].len()).max().unwrap_or(0);
        let (maps, keys) = (widest(0), widest(1));
        let line = |[map, key, value]: &[String; 3]| format!("{map:maps$}  {key:keys$} : {value}");
        found.iter().map(line).collect()
    }

    /// The rule that matches the frontend, and every DNAT in the chains that it leads to.
    fn of_iptables(&self, listing: &str) -> Vec<String> {
        let port = format!("--dport {} ", self.target.port());
        let address = format!("-d {}/", self.target.ip());
        let protocol = format!("-p {} ", self.protocol());
        let rules: Vec<&str> = listing
            .lines()
            .filter_map(|it| it.strip_prefix("-A "))
            .collect();
        let matches = |rule: &&&str| {
            let place = if self.is_node_port {
                rule.starts_with("KUBE-NODEPORTS ") && !rule.contains(LOOPBACK)
            } else {
                rule.starts_with("KUBE-SERVICES ") && rule.contains(&address)
            };
            place && rule.contains(&port) && rule.contains(&protocol)
        };
        let first: Vec<&str> = rules.iter().filter(matches).copied().collect();
        let jump = |rule: &str| Some(rule.split_once(" -j ")?.1.split(' ').next()?.to_owned());
        let mut chains: BTreeSet<String> = first.iter().filter_map(|it| jump(it)).collect();
        let mut endpoints = BTreeSet::new();
        // From a frontend to its endpoints it is at most four chains (EXT, SVL, SVC, SEP).
        for _ in 0..4 {
            for rule in &rules {
                let (chain, _) = rule.split_once(' ').unwrap_or((rule, ""));
                if !chains.contains(chain) {
                    continue;
                }
                if rule.contains(" -j DNAT ") {
                    endpoints.insert(*rule);
                } else if let Some(next) = jump(rule).filter(|it| it.starts_with("KUBE-S")) {
                    chains.insert(next);
                }
            }
        }
        let short = |rule: &str| {
            let mut text = rule.replace(&format!("-m {} ", self.protocol()), "");
            while let Some(start) = text.find("-m comment --comment ") {
                let rest = &text[start + 21..];
                let length = match rest.strip_prefix('"') {
                    Some(quoted) => quoted.find('"').map_or(rest.len(), |it| it + 2),
                    None => rest.find(' ').unwrap_or(rest.len()),
                };
                text.replace_range(start..(start + 21 + length + 1).min(text.len()), "");
            }
            text
        };
        first.into_iter().chain(endpoints).map(short).collect()
    }

    /// The virtual server, and its real servers that get new connections: those with a weight.
    fn of_ipvs(&self, listing: &str) -> Vec<String> {
        let server = format!("{} {} ", self.protocol().to_uppercase(), self.target);
        let mut found = Vec::new();
        let mut inside = false;
        for line in listing
            .lines()
            .map(|it| it.split_whitespace().collect::<Vec<_>>())
        {
            match line[..] {
                ["->", real, _forward, weight, ..] if inside && weight != "0" => {
                    found.push(format!("  -> {real}"));
                }
                ["->", ..] => {}
                _ => {
                    inside = format!("{} ", line.join(" ")).starts_with(&server);
                    if inside {
                        found.push(line.join(" "));
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialled(target: &str, is_node_port: bool) -> Dialled {
        Dialled {
            target: target.parse().expect("an address"),
            protocol: Protocol::Tcp,
            is_node_port,
        }
    }

    #[test]
    fn elements_of_one_frontend() {
        let listing = r#"
	map frontends {
		elements = { 10.96.0.1 . tcp . 80 comment "default/web" : goto cluster-ip-1,
			     10.96.0.1 . tcp . 8080 comment "default/web" : goto cluster-ip-1 }
	}
	map endpoints {
		elements = { 10.96.0.1 . tcp . 80 . 0 comment "web-1" : 10.244.0.2 . 8080 }
"#;
        assert_eq!(
            dialled("10.96.0.1:80", false).of_nftables(listing),
            [
                "frontends  10.96.0.1 . tcp . 80     : goto cluster-ip-1",
                "endpoints  10.96.0.1 . tcp . 80 . 0 : 10.244.0.2 . 8080  web-1",
            ]
        );
    }

    #[test]
    fn rules_of_one_frontend() {
        let listing = r#"
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-A
-A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m comment --comment other -m tcp --dport 80 -j KUBE-SVC-B
-A KUBE-SVC-A -m comment --comment "default/web -> 10.244.0.2:8080" -j KUBE-SEP-A
-A KUBE-SVC-B -j KUBE-SEP-B
-A KUBE-SEP-A -s 10.244.0.2/32 -m comment --comment default/web -j KUBE-MARK-MASQ
-A KUBE-SEP-A -p tcp -m comment --comment default/web -m tcp -j DNAT --to-destination 10.244.0.2:8080
-A KUBE-SEP-B -p tcp -m tcp -j DNAT --to-destination 10.244.0.3:8080
"#;
        assert_eq!(
            dialled("10.96.0.1:80", false).of_iptables(listing),
            [
                "KUBE-SERVICES -d 10.96.0.1/32 -p tcp --dport 80 -j KUBE-SVC-A",
                "KUBE-SEP-A -p tcp -j DNAT --to-destination 10.244.0.2:8080",
            ]
        );
    }

    #[test]
    fn real_servers_of_one_frontend() {
        let listing = "\
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.96.0.1:80 rr
  -> 10.244.0.2:8080              Masq    1      0          0
  -> 10.244.0.3:8080              Masq    0      4          0
TCP  10.96.0.1:8080 rr
  -> 10.244.0.9:8080              Masq    1      0          0
";
        assert_eq!(
            dialled("10.96.0.1:80", false).of_ipvs(listing),
            ["TCP 10.96.0.1:80 rr", "  -> 10.244.0.2:8080"]
        );
    }
}
