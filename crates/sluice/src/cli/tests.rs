use super::*;

#[test]
fn the_definition_is_sound() {
    definition().debug_assert();
}

#[test]
fn kube_proxy_is_the_agent() {
    kube_proxy().debug_assert();
    let all = ["/usr/local/bin/kube-proxy", "-v=2", "--v=3", "--cleanup"];
    assert!(is_named(&all[0].into(), "kube-proxy"));
    let Command::Proxy(proxy) = parse(all.into_iter().map(OsString::from)) else {
        panic!("another command");
    };
    assert!(proxy.node.flags.has("v"));
    assert_eq!(proxy.cleanup, Some(true));
    assert!(!is_named(&"/usr/bin/sluice".into(), "kube-proxy"));
}

#[test]
fn underscores_are_dashes_in_names_only() {
    for (given, read) in [
        ("--cluster_cidr=a_b", "--cluster-cidr=a_b"),
        ("--log_dir", "--log-dir"),
        ("/a_b", "/a_b"),
        ("-o_p", "-o_p"),
    ] {
        assert_eq!(with_dashes(given.into()), read);
    }
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
