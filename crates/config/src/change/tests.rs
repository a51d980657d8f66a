use super::*;
use crate::KubeProxyConfiguration;

#[track_caller]
fn check(edit: impl Fn(&mut KubeProxyConfiguration), expected: &Change) {
    check_in("", edit, expected);
}

#[track_caller]
fn check_in(mode: &str, edit: impl Fn(&mut KubeProxyConfiguration), expected: &Change) {
    let mut old = KubeProxyConfiguration::defaulted();
    old.mode = mode.to_owned();
    let mut new = old.clone();
    edit(&mut new);
    let [old, new] = [old, new].map(|it| it.effective().expect("valid"));
    assert_eq!(&change(&old, &new), expected);
    assert_eq!(change(&new, &new), Change::Nothing);
}

#[test]
fn what_means_the_same_is_nothing() {
    check(|_| (), &Change::Nothing);
    check(|it| it.port_range = "1-2".to_owned(), &Change::Nothing);
    check(|it| it.nftables.masquerade_all = true, &Change::Nothing);
}

#[test]
fn what_is_safe_is_applied() {
    check(|it| it.iptables.masquerade_all = true, &Change::Apply);
    check(|it| it.iptables.masquerade_bit = Some(1), &Change::Apply);
    check(
        |it| it.cluster_cidr = "10.0.0.0/8".to_owned(),
        &Change::Apply,
    );
    check(
        |it| it.node_port_addresses = Some(vec!["primary".to_owned()]),
        &Change::Apply,
    );
    check(|it| it.iptables.sync_period.0 += 1, &Change::Apply);
    check(|it| it.logging.verbosity = 4, &Change::Apply);
    check(|it| it.conntrack.min = Some(7), &Change::Apply);
}

#[test]
fn the_mark_bit_is_safe_but_in_the_ipvs_mode() {
    let edit = |it: &mut KubeProxyConfiguration| {
        it.iptables.masquerade_bit = Some(1);
        it.nftables.masquerade_bit = Some(1);
    };
    check_in("iptables", edit, &Change::Apply);
    check_in("nftables", edit, &Change::Apply);
    let restart = Change::Restart(vec!["iptables.masqueradeBit"]);
    check_in("ipvs", edit, &restart);
    check_in(
        "ipvs",
        |it| it.iptables.masquerade_all = true,
        &Change::Apply,
    );
}

#[test]
fn node_ports_come_to_loopback_by_a_new_process_only() {
    let addresses = |texts: &[&str]| Some(texts.iter().map(|it| (*it).to_owned()).collect());
    let configured = |texts: &[&str]| {
        let mut config = KubeProxyConfiguration::defaulted();
        config.mode = "iptables".to_owned();
        config.node_port_addresses = addresses(texts);
        config
    };
    let restart = Change::Restart(vec!["nodePortAddresses"]);
    for (old, new, expected) in [
        (&["10.9.0.0/16"][..], &[][..], &restart),
        (&["10.9.0.0/16"], &["127.0.0.0/8"], &restart),
        (&["primary"], &["10.9.0.0/16", "::/0"], &Change::Apply),
        (&["127.0.0.0/8"], &[], &Change::Apply),
        (&[], &["10.9.0.0/16"], &Change::Apply),
    ] {
        let [old, mut new] = [old, new].map(configured);
        let change_to = |new: &KubeProxyConfiguration| {
            let [old, new] = [&old, new].map(|it| it.effective().expect("valid"));
            change(&old, &new)
        };
        assert_eq!(&change_to(&new), expected);
        // What is not wanted there takes nothing of the machine.
        new.iptables.localhost_node_ports = Some(false);
        let fields = vec!["iptables.localhostNodePorts"];
        assert_eq!(change_to(&new), Change::Restart(fields));
    }
    for mode in ["nftables", "ipvs"] {
        check_in(
            mode,
            |it| it.node_port_addresses = addresses(&["127.0.0.0/8"]),
            &Change::Apply,
        );
    }
}

#[test]
fn the_rest_needs_a_new_process() {
    let restart = |fields: &[&'static str]| Change::Restart(fields.to_vec());
    check(|it| it.mode = "ipvs".to_owned(), &restart(&["mode"]));
    check(
        |it| {
            it.hostname_override = "x".to_owned();
            it.client_connection.kubeconfig = "/k".to_owned();
            it.healthz_bind_address = "1.2.3.4:5".to_owned();
            it.logging.verbosity = 4;
        },
        &restart(&["hostnameOverride", "healthzBindAddress", "clientConnection"]),
    );
}
