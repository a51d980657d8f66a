use super::*;

#[test]
fn the_definition_is_sound() {
    definition().debug_assert();
}

fn args(all: &[&str]) -> Vec<OsString> {
    let all: Vec<OsString> = all.iter().map(OsString::from).collect();
    as_kube_proxy(all.into_iter())
}

#[test]
fn kube_proxy_is_the_agent() {
    assert_eq!(
        args(&["/usr/local/bin/kube-proxy", "--v=2"]),
        ["/usr/local/bin/kube-proxy", "proxy", "--v=2"]
    );
    assert_eq!(args(&["sluice", "status"]), ["sluice", "status"]);
}

#[test]
fn underscores_are_dashes_in_names_only() {
    assert_eq!(
        args(&[
            "sluice",
            "proxy",
            "--cluster_cidr=a_b",
            "--log_dir",
            "/a_b",
            "-o_p"
        ]),
        [
            "sluice",
            "proxy",
            "--cluster-cidr=a_b",
            "--log-dir",
            "/a_b",
            "-o_p"
        ]
    );
}

#[test]
fn flags_may_be_repeated() {
    let all = [
        "sluice",
        "proxy",
        "--socket=/a",
        "--socket",
        "/b",
        "-v2",
        "-v",
        "4",
        "-v=3",
    ];
    let matches = definition().try_get_matches_from(all).expect("valid");
    let Command::Proxy(proxy) = Cli::from_arg_matches(&matches).expect("valid").command else {
        panic!("another command");
    };
    assert_eq!(proxy.socket, PathBuf::from("/b"));
    assert_eq!((proxy.cleanup, proxy.init_only), (None, None));
    assert!(proxy.node.flags.has("v"));
}
