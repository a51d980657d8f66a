use super::*;
use crate::decode;

#[track_caller]
fn check(rest: &str, expected: &[&str]) {
    let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    let mut decoded = decode(format!("{head}{rest}").as_bytes()).expect("readable");
    decoded.config.set_defaults();
    let found = warnings(&decoded.config, &decoded.lines);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn defaults_are_silent() {
    check("", &[]);
    check(
        "ipvs: {syncPeriod: 30s}\nportRange: \"\"\nwinkernel: {sourceVip: \"\"}\n\
         logging: {flushFrequency: 5s}\nfeatureGates: {AllBeta: true}\n",
        &[],
    );
}

#[test]
fn what_does_nothing_is_named() {
    check(
        "portRange: 1-5\nwinkernel: {enableDSR: true}\nipvs:\n  scheduler: rr\n\
         nftables: {masqueradeAll: true}\nfeatureGates: {Frobnicate: false}\n\
         windowsRunAsService: true\nlogging: {vmodule: [{filePattern: a, verbosity: 1}]}\n\
         clientConnection: {contentType: application/json}\n",
        &[
            "line 3: portRange: is ignored: deprecated, it has no effect",
            "line 4: winkernel.enableDSR: is ignored: for Windows only",
            "line 6: ipvs.scheduler: is ignored: for the ipvs mode",
            "line 7: nftables.masqueradeAll: is ignored: without a mode the iptables section counts",
            "line 8: featureGates.Frobnicate: not a feature gate of kube-proxy 1.36",
            "line 9: windowsRunAsService: is ignored: for Windows only",
            "line 10: logging.vmodule: is ignored: the source files of Sluice have other names",
            "line 11: clientConnection.contentType: is ignored: Sluice chooses its own content type",
        ],
    );
}

#[test]
fn the_section_of_the_mode_counts() {
    check("mode: nftables\nnftables: {masqueradeAll: true}\n", &[]);
    check(
        "mode: ipvs\nipvs: {scheduler: rr}\niptables: {masqueradeAll: true}\n",
        &[],
    );
    check(
        "mode: nftables\niptables: {masqueradeAll: true}\n",
        &["line 4: iptables.masqueradeAll: is ignored: for the iptables and ipvs modes"],
    );
}
