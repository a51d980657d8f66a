use std::io::Write;

use tempfile::NamedTempFile;

use super::*;
use crate::config::tests::{check, validate};

#[test]
fn the_page_is_off_by_default() {
    assert_eq!(validate("").expect("valid").web, None);
    assert_eq!(validate("--web-bind-address=").expect("valid").web, None);
}

#[test]
fn an_address_of_the_web_page_may_lack_its_port() {
    for (flags, expected) in [
        ("--web-bind-address=127.0.0.1", "127.0.0.1:10261"),
        ("--web-bind-address=127.0.0.1:8080", "127.0.0.1:8080"),
        ("--web-bind-address=::1", "[::1]:10261"),
        (
            "--web-bind-address=0.0.0.0 --web-token-file=/t",
            "0.0.0.0:10261",
        ),
    ] {
        let config = validate(flags).expect("valid");
        let web = config.web.expect("on");
        assert_eq!(web.address.to_string(), expected);
        let own = &config.node.settings.own_ports;
        assert!(own.contains(&web.address.port()), "no NodePort takes it");
    }
    for wrong in ["everywhere", "127.0.0.1:0"] {
        let problem =
            format!("--web-bind-address: \"{wrong}\" is no address such as 127.0.0.1:10261");
        check(&format!("--web-bind-address={wrong}"), &[&*problem]);
    }
    for (given, address) in [
        ("0.0.0.0", "0.0.0.0:10261"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("[::]:80", "[::]:80"),
    ] {
        let problem = format!(
            "--web-bind-address: {address} is no loopback address: give --web-token-file, so that \
             only those who know the token see the page"
        );
        check(&format!("--web-bind-address={given}"), &[&*problem]);
    }
}

#[test]
fn the_token_is_in_a_file() {
    let mut file = NamedTempFile::new().expect("a temporary directory");
    let config = WebConfig {
        address: ([0, 0, 0, 0], PORT).into(),
        token_file: Some(file.path().to_owned()),
    };
    let problem = format!("{:#}", config.server().expect_err("it is empty"));
    let expected = ": the token has fewer than 16 characters";
    assert!(problem.ends_with(expected), "{problem}");
    writeln!(file, "0123456789abcdef").expect("writable");
    assert!(config.server().expect("a token").token.is_some());
    file.close().expect("it exists");
    let problem = format!("{:#}", config.server().expect_err("it is gone"));
    assert!(problem.starts_with("--web-token-file: read /"), "{problem}");
}
