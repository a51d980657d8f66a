//! Families that cannot be served.

use std::time::Duration;

use sluice_lab::eventually;
use sluice_plane::DataPlane as _;
use sluice_reconcile::Upkeep;
use sluice_scenarios::Drive as _;

use super::{BOTH, Node, delete, destroy, http, run, shows, shows_no, start, web};

/// Where one family cannot be served, the other is, the status says what is to be done, and as soon
/// as it is done both are.
pub(super) fn a_family_in_trouble(broken: &Family, healthy: &Family) {
    broken.iptables("-F INPUT");
    broken.iptables("-F KUBE-IPVS-FILTER");
    broken.iptables("-t nat -F");
    broken.iptables("-t mangle -F");
    let set = broken.local_balancers;
    destroy(set);
    run(
        "ipset",
        &format!("create {set} hash:net family {}", broken.inet),
    );
    healthy.iptables("-F KUBE-IPVS-FILTER");
    let mention = format!("OUTPUT -m set --match-set {set} src");
    broken.iptables(&format!("-A {mention}"));
    let mut proxy = start(web(BOTH));
    let error = proxy.try_sync().unwrap_err().to_string();
    assert!(error.contains(set), "{error}");
    proxy.resync();
    let named = |what: &str| {
        let name = broken.name;
        Some(format!(
            "{name} is not written until this works, what is there stays: use ipset {set}: it is not a hash:ip,port: \
             remove {what} with `ipset destroy {set}`"
        ))
    };
    let what = "the rules that mention it, then the set";
    assert_eq!(unserved(&proxy), named(what));
    broken.iptables(&format!("-D {mention}"));
    // The kernel lets go of it a moment later.
    let is_free = eventually(Duration::from_secs(60), || {
        is_awaited(&mut proxy);
        (unserved(&proxy) == named("it")).then_some(())
    });
    assert!(is_free.is_some(), "{:?}", unserved(&proxy));
    assert!(!healthy.filter().is_empty() && broken.filter().is_empty());
    assert!(proxy.resync().is_empty(), "what can be written is");
    is_awaited(&mut proxy);
    run("ipset", &format!("destroy {set}"));
    can_be_served_again(&mut proxy, broken);
    assert!(!proxy.resync().is_empty());
    assert_eq!(unserved(&proxy), None);
    assert!(!broken.filter().is_empty());
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

/// Where the rules of one family cannot be read, the Services of the other change as ever.
pub(super) fn an_unreadable_family(broken: &Family) {
    let server = |family: &Family| match family.name {
        "IPv4" => "-Ln -t 10.96.0.17:80",
        _ => "-Ln -t [fd00:96::17]:80",
    };
    let real = |family: &Family, last: u8| match family.name {
        "IPv4" => format!("10.244.0.{last}:8080"),
        _ => format!("[fd00:244::{last}]:8080"),
    };
    let both = |last: u8| {
        let endpoints_text = format!("{}@ {}@", real(&IPV4, last), real(&IPV6, last));
        http("dual", "10.96.0.17 fd00:96::17 http:80", &endpoints_text)
    };
    let mut proxy = start([web(BOTH), both(5)].concat());
    proxy.resync();
    let strange = format!("{} filter STRANGE", broken.nft);
    run("nft", &format!("add chain {strange}"));
    run("nft", &format!("add rule {strange} ct state new"));
    proxy.resync();
    let named = format!(
        "{} is not written until this works, what is there stays: read the {0} rules: table filter has rules that only \
         nft can show; see `nft list table {} filter`, and move them to a table of their own",
        broken.name, broken.nft
    );
    assert_eq!(unserved(&proxy).as_ref(), Some(&named));
    proxy.change(both(6));
    for family in [IPV4, IPV6] {
        let (gone, there) = if family.name == broken.name {
            (6, 5)
        } else {
            (5, 6)
        };
        shows("ipvsadm", server(&family), &real(&family, there));
        shows_no("ipvsadm", server(&family), &real(&family, gone));
    }
    is_awaited(&mut proxy);
    run("nft", &format!("delete chain {strange}"));
    can_be_served_again(&mut proxy, broken);
    assert!(!proxy.resync().is_empty());
    assert_eq!(unserved(&proxy), None);
    shows("ipvsadm", server(broken), &real(broken, 6));
    shows_no("ipvsadm", server(broken), &real(broken, 5));
    proxy.change(vec![delete("dual")]);
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

fn unserved(proxy: &Node) -> Option<String> {
    let unserved = proxy.reconciler().backend().unserved();
    unserved.map(|it| it.to_string())
}

/// As the agent does it: once somebody else has changed rules, the next sync reads the kernel.
fn upkeep(proxy: &mut Node) -> Upkeep {
    let upkeep = proxy.reconciler_mut().upkeep();
    upkeep.unwrap_or_else(|_| {
        proxy.synced();
        proxy.reconciler_mut().upkeep().unwrap()
    })
}

#[track_caller]
fn is_awaited(proxy: &mut Node) {
    let due = upkeep(proxy);
    assert!(matches!(due, Upkeep::After(_)), "{due:?}");
}

#[track_caller]
fn can_be_served_again(proxy: &mut Node, family: &Family) {
    let tried = eventually(Duration::from_secs(60), || match upkeep(proxy) {
        Upkeep::Resync(reason) => Some(reason),
        Upkeep::Nothing | Upkeep::After(_) => None,
    });
    assert_eq!(tried, Some(format!("{} can be served now", family.name)));
}

pub(super) struct Family {
    name: &'static str,
    nft: &'static str,
    inet: &'static str,
    program: &'static str,
    local_balancers: &'static str,
}

pub(super) const IPV4: Family = Family {
    name: "IPv4",
    nft: "ip",
    inet: "inet",
    program: "iptables",
    local_balancers: "KUBE-LOAD-BALANCER-LOCAL",
};

pub(super) const IPV6: Family = Family {
    name: "IPv6",
    nft: "ip6",
    inet: "inet6",
    program: "ip6tables",
    local_balancers: "KUBE-6-LOAD-BALANCER-LOCAL",
};

impl Family {
    fn iptables(&self, arguments: &str) -> String {
        run(self.program, arguments)
    }

    /// The rules of one of our chains.
    fn filter(&self) -> Vec<String> {
        let listing = self.iptables("-S KUBE-IPVS-FILTER");
        let rules = listing.lines().filter(|it| it.starts_with("-A"));
        rules.map(str::to_owned).collect()
    }
}
