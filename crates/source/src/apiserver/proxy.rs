//! The HTTP proxy on the way to the API server, if there is one.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// The proxy for a server: `explicit` (`proxy-url` of the cluster in a kubeconfig) before that of
/// the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`). As in Go, a server on the loopback
/// interface has no proxy from the environment (`httpproxy.FromEnvironment`).
pub(super) fn proxy(
    server: &Uri,
    explicit: Option<&Uri>,
    environment: &Matcher,
) -> Result<Option<Intercept>, String> {
    let intercept = match explicit {
        Some(url) => Matcher::builder()
            .all(url.to_string())
            .build()
            .intercept(server),
        None if is_loopback(server) => None,
        None => environment.intercept(server),
    };
    let scheme = intercept.as_ref().and_then(|it| it.uri().scheme_str());
    match scheme {
        None | Some("http") => Ok(intercept),
        Some(other) => Err(format!(
            "proxy-url or HTTPS_PROXY: a proxy that speaks {other} is not supported, only http is"
        )),
    }
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// Connects through the proxy with CONNECT.
pub(super) fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy for `server` with this `proxy-url` in an environment with HTTPS_PROXY and
    /// NO_PROXY.
    #[track_caller]
    fn check(server: &str, explicit: &str, expected: Result<&str, &str>) {
        let environment = Matcher::builder()
            .https("http://env:3128")
            .http("http://env:3128")
            .no("10.0.0.0/8,.internal")
            .build();
        let explicit = explicit.parse().ok();
        let found = proxy(&server.parse().unwrap(), explicit.as_ref(), &environment);
        let found = found.map(|it| it.map(|it| it.uri().to_string()).unwrap_or_default());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn environment_counts_unless_it_says_no() {
        check("https://api.example:6443", "", Ok("http://env:3128/"));
        check("https://10.1.2.3:6443", "", Ok(""));
        check("https://api.internal:6443", "", Ok(""));
        check("https://127.0.0.1:6443", "", Ok(""));
        check("https://localhost:6443", "", Ok(""));
        check("https://[::1]:6443", "", Ok(""));
    }

    #[test]
    fn kubeconfig_counts_before_it() {
        check("https://10.1.2.3:6443", "http://own:1", Ok("http://own:1/"));
        check(
            "https://127.0.0.1:6443",
            "http://own:1",
            Ok("http://own:1/"),
        );
        check("https://10.1.2.3:6443", "socks5://own:1", Err("socks5"));
        check(
            "https://10.1.2.3:6443",
            "https://own:1",
            Err("speaks https"),
        );
    }
}
