//! Rules as kube-proxy writes them in each mode, and the neighbours that they live with.

use std::net::{IpAddr, SocketAddr};

/// Port of every Service.
pub(crate) const PORT: u16 = 80;
pub(crate) const POD_PORT: u16 = 8080;
pub(crate) const NODE_PORT: u16 = 30080;

/// The Services of one family.
pub(crate) struct Services {
    /// ClusterIPs: of the one with a NodePort, the one with affinity, the one without endpoints.
    pub(crate) web: IpAddr,
    pub(crate) sticky: IpAddr,
    pub(crate) dead: IpAddr,
    /// The two endpoints.
    pub(crate) pods: [IpAddr; 2],
}

impl Services {
    pub(crate) fn is_v6(&self) -> bool {
        self.web.is_ipv6()
    }

    /// `iptables` or `ip6tables`.
    pub(crate) fn program(&self) -> &'static str {
        if self.is_v6() {
            "ip6tables"
        } else {
            "iptables"
        }
    }

    fn host(&self, ip: IpAddr) -> String {
        format!("{ip}/{}", if self.is_v6() { 128 } else { 32 })
    }

    fn loopback(&self) -> &'static str {
        if self.is_v6() {
            "::1/128"
        } else {
            "127.0.0.0/8"
        }
    }

    fn unreachable(&self) -> &'static str {
        if self.is_v6() {
            "icmp6-port-unreachable"
        } else {
            "icmp-port-unreachable"
        }
    }

    /// What `iptables-restore --noflush` takes: the rules of iptables mode.
    pub(crate) fn iptables(&self) -> String {
        [self.mangle(), self.filter(), self.nat()].concat()
    }

    fn mangle(&self) -> String {
        "*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n".to_owned()
    }

    fn filter(&self) -> String {
        let mut text = "*filter\n".to_owned();
        for chain in [
            "KUBE-EXTERNAL-SERVICES",
            "KUBE-FORWARD",
            "KUBE-NODEPORTS",
            "KUBE-PROXY-CANARY",
            "KUBE-PROXY-FIREWALL",
            "KUBE-SERVICES",
        ] {
            text += &format!(":{chain} - [0:0]\n");
        }
        for (from, to, comment, new) in [
            (
                "INPUT",
                "KUBE-EXTERNAL-SERVICES",
                "externally-visible service portals",
                true,
            ),
            (
                "FORWARD",
                "KUBE-EXTERNAL-SERVICES",
                "externally-visible service portals",
                true,
            ),
            (
                "INPUT",
                "KUBE-NODEPORTS",
                "health check service ports",
                false,
            ),
            ("FORWARD", "KUBE-SERVICES", "service portals", true),
            ("OUTPUT", "KUBE-SERVICES", "service portals", true),
            ("FORWARD", "KUBE-FORWARD", "forwarding rules", false),
            (
                "INPUT",
                "KUBE-PROXY-FIREWALL",
                "load balancer firewall",
                true,
            ),
            (
                "OUTPUT",
                "KUBE-PROXY-FIREWALL",
                "load balancer firewall",
                true,
            ),
            (
                "FORWARD",
                "KUBE-PROXY-FIREWALL",
                "load balancer firewall",
                true,
            ),
        ] {
            let state = if new {
                "-m conntrack --ctstate NEW "
            } else {
                ""
            };
            let comment = format!("-m comment --comment \"kubernetes {comment}\"");
            text += &format!("-I {from} 1 {state}{comment} -j {to}\n");
        }
        let (dead, with) = (self.host(self.dead), self.unreachable());
        text += &format!(
            "-A KUBE-SERVICES -m comment --comment \"default/dead has no endpoints\" -d {dead} \
             -p tcp -m tcp --dport {PORT} -j REJECT --reject-with {with}\n\
             -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n\
             -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n\
             -A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n"
        );
        text
    }

    fn nat(&self) -> String {
        let mut text = "*nat\n".to_owned();
        let mut chains = vec!["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING"];
        chains.extend(["KUBE-MARK-MASQ", "KUBE-PROXY-CANARY", EXT, WEB, STICKY]);
        chains.extend(WEB_ENDS);
        chains.extend(STICKY_ENDS);
        for chain in chains {
            text += &format!(":{chain} - [0:0]\n");
        }
        for (from, to, comment) in [
            ("PREROUTING", "KUBE-SERVICES", "kubernetes service portals"),
            ("OUTPUT", "KUBE-SERVICES", "kubernetes service portals"),
            (
                "POSTROUTING",
                "KUBE-POSTROUTING",
                "kubernetes postrouting rules",
            ),
        ] {
            text += &format!("-I {from} 1 -m comment --comment \"{comment}\" -j {to}\n");
        }
        text += "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n\
                 -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
                 -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n\
                 -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic \
                 requiring SNAT\" -j MASQUERADE --random-fully\n";
        for (ip, name, chain) in [(self.web, "web", WEB), (self.sticky, "sticky", STICKY)] {
            let ip = self.host(ip);
            text += &format!(
                "-A KUBE-SERVICES -m comment --comment \"default/{name} cluster IP\" -d {ip} \
                 -p tcp -m tcp --dport {PORT} -j {chain}\n"
            );
        }
        let loopback = self.loopback();
        text += &format!(
            "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this \
             must be the last rule in this chain\" -m addrtype --dst-type LOCAL ! -d {loopback} \
             -j KUBE-NODEPORTS\n\
             -A KUBE-NODEPORTS -m comment --comment default/web -p tcp -m tcp --dport {NODE_PORT} \
             -j {EXT}\n\
             -A {EXT} -m comment --comment \"masquerade traffic for default/web external \
             destinations\" -j KUBE-MARK-MASQ\n\
             -A {EXT} -j {WEB}\n"
        );
        text += &self.balance("web", WEB, WEB_ENDS, false);
        text += &self.balance("sticky", STICKY, STICKY_ENDS, true);
        text + "COMMIT\n"
    }

    fn balance(&self, name: &str, service: &str, ends: [&str; 2], sticky: bool) -> String {
        let comment = format!("-m comment --comment default/{name}");
        let mut text = String::new();
        if sticky {
            for end in ends {
                text += &format!(
                    "-A {service} {comment} -m recent --name {end} --rcheck --seconds 10800 \
                     --reap -j {end}\n"
                );
            }
        }
        let half = "-m statistic --mode random --probability 0.5000000000";
        for (end, choice) in ends.into_iter().zip([half, ""]) {
            text += &format!("-A {service} {comment} {choice} -j {end}\n");
        }
        for (end, pod) in ends.into_iter().zip(self.pods) {
            let (source, target) = (self.host(pod), SocketAddr::new(pod, POD_PORT));
            let recent = if sticky {
                format!("-m recent --name {end} --set ")
            } else {
                String::new()
            };
            text += &format!(
                "-A {end} {comment} -s {source} -j KUBE-MARK-MASQ\n\
                 -A {end} {comment} {recent}-m tcp -p tcp -j DNAT --to-destination {target}\n"
            );
        }
        text
    }

    /// What `nft -f -` takes: the rules of nftables mode.
    pub(crate) fn nftables(&self) -> String {
        let (family, proto) = if self.is_v6() {
            ("ip6", "ipv6_addr")
        } else {
            ("ip", "ipv4_addr")
        };
        let (web, [one, two]) = (self.web, self.pods);
        format!(
            "table {family} kube-proxy {{
  comment \"rules for kube-proxy\"
  map service-ips {{ type {proto} . inet_proto . inet_service : verdict
    elements = {{ {web} . tcp . {PORT} : goto service-ULMVA6XW-default/web/tcp/ }} }}
  chain nat-prerouting {{ type nat hook prerouting priority -100; jump services; }}
  chain nat-output {{ type nat hook output priority -100; jump services; }}
  chain services {{ {family} daddr . meta l4proto . th dport vmap @service-ips; }}
  chain service-ULMVA6XW-default/web/tcp/ {{
    meta l4proto tcp dnat {family} addr . port to numgen random mod 2 map {{
      0 : {one} . {POD_PORT}, 1 : {two} . {POD_PORT} }}; }}
}}
"
        )
    }

    /// What `ipvsadm --restore` takes: virtual servers of the ClusterIP and of the NodePort.
    pub(crate) fn virtual_servers(&self, node: IpAddr) -> String {
        let mut text = String::new();
        for (ip, port) in [(self.web, PORT), (node, NODE_PORT)] {
            let server = SocketAddr::new(ip, port);
            text += &format!("-A -t {server} -s rr\n");
            for pod in self.pods {
                let real = SocketAddr::new(pod, POD_PORT);
                text += &format!("-a -t {server} -r {real} -m -w 1\n");
            }
        }
        text
    }

    fn set(&self, name: &str) -> String {
        if self.is_v6() {
            format!("KUBE-6-{name}")
        } else {
            format!("KUBE-{name}")
        }
    }

    /// What `ipset restore` takes: the sets of ipvs mode.
    pub(crate) fn ipsets(&self) -> String {
        let family = if self.is_v6() { "inet6" } else { "inet" };
        let mut text = String::new();
        for (name, kind) in [
            ("CLUSTER-IP", "hash:ip,port"),
            ("LOOP-BACK", "hash:ip,port,ip"),
            ("IPVS-IPS", "hash:ip"),
        ] {
            let set = self.set(name);
            text += &format!("create {set} {kind} family {family}\n");
        }
        let ports = self.set("NODE-PORT-TCP");
        text += &format!("create {ports} bitmap:port range 0-65535\nadd {ports} {NODE_PORT}\n");
        let (cluster, vips, web) = (self.set("CLUSTER-IP"), self.set("IPVS-IPS"), self.web);
        text + &format!("add {cluster} {web},tcp:{PORT}\nadd {vips} {web}\n")
    }

    /// What `iptables-restore --noflush` takes: the rules of ipvs mode.
    pub(crate) fn ipvs_iptables(&self) -> String {
        let [cluster, loopback, vips, ports] =
            ["CLUSTER-IP", "LOOP-BACK", "IPVS-IPS", "NODE-PORT-TCP"].map(|it| self.set(it));
        format!(
            "*filter\n:KUBE-FORWARD - [0:0]\n:KUBE-IPVS-FILTER - [0:0]\n:KUBE-NODE-PORT - [0:0]\n\
             :KUBE-PROXY-FIREWALL - [0:0]\n:KUBE-SOURCE-RANGES-FIREWALL - [0:0]\n\
             -I FORWARD 1 -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n\
             -I INPUT 1 -m comment --comment \"kubernetes ipvs access filter\" -j KUBE-IPVS-FILTER\n\
             -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n\
             -A KUBE-IPVS-FILTER -m set --match-set {cluster} dst,dst -j RETURN\n\
             -A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set {vips} dst -j REJECT\n\
             COMMIT\n\
             *nat\n:KUBE-LOAD-BALANCER - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-NODE-PORT - [0:0]\n\
             :KUBE-POSTROUTING - [0:0]\n:KUBE-SERVICES - [0:0]\n\
             -I PREROUTING 1 -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
             -I OUTPUT 1 -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
             -I POSTROUTING 1 -m comment --comment \"kubernetes postrouting rules\" \
             -j KUBE-POSTROUTING\n\
             -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n\
             -A KUBE-NODE-PORT -p tcp -m set --match-set {ports} dst -j KUBE-MARK-MASQ\n\
             -A KUBE-POSTROUTING -m set --match-set {loopback} dst,dst,src -j MASQUERADE\n\
             -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
             -A KUBE-POSTROUTING -j MASQUERADE --random-fully\n\
             -A KUBE-SERVICES -m set --match-set {cluster} src,dst -j KUBE-MARK-MASQ\n\
             -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT\n\
             COMMIT\n"
        )
    }

    /// What `iptables-restore --noflush` takes: rules of others in the same tables, the kubelet's
    /// and those that need a chain of kube-proxy among them.
    pub(crate) fn neighbours(&self) -> String {
        let pod = self.host(self.pods[0]);
        let target = SocketAddr::new(self.pods[0], POD_PORT);
        format!(
            "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n\
             *filter\n:DOCKER-USER - [0:0]\n:KUBE-FIREWALL - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\n\
             -A INPUT -j KUBE-FIREWALL\n-A OUTPUT -j KUBE-FIREWALL\n\
             -A FORWARD -j DOCKER-USER\n-A DOCKER-USER -j RETURN\n\
             -A KUBE-FIREWALL -m comment --comment \"block incoming localnet connections\" \
             -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -m mark --mark 0x8000 -j DROP\n\
             COMMIT\n\
             *nat\n:CNI-HOSTPORT-DNAT - [0:0]\n:HOSTPORTS - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
             :KUBE-MARK-DROP - [0:0]\n-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000\n\
             -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT\n\
             -A PREROUTING -p tcp -m tcp --dport 2222 -m comment --comment \"mine: -j KUBE-SERVICES\" \
             -j REDIRECT --to-ports 22\n\
             -A PREROUTING -j HOSTPORTS\n\
             -A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 9999 -j DNAT --to-destination {target}\n\
             -A HOSTPORTS -s {pod} -j KUBE-MARK-MASQ\n\
             -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
             COMMIT\n"
        )
    }
}

const EXT: &str = "KUBE-EXT-WEBWEBWEBWEBWEB2";
const WEB: &str = "KUBE-SVC-WEBWEBWEBWEBWEB2";
const WEB_ENDS: [&str; 2] = ["KUBE-SEP-WEBWEBWEBWEBWEB3", "KUBE-SEP-WEBWEBWEBWEBWEB4"];
const STICKY: &str = "KUBE-SVC-STICKYSTICKYSTI5";
const STICKY_ENDS: [&str; 2] = ["KUBE-SEP-STICKYSTICKYSTI6", "KUBE-SEP-STICKYSTICKYSTI7"];
