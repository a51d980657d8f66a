//! Connections, credentials, files for clients, and what the server remembers.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Connection, LONG, SERVICES, SHORT, get, names, plain, put, start};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sluice_miniapi::{Cut, Error, Fault, MiniApi, Options, Verb};

#[test]
fn tls_serves_whom_it_knows() {
    let api = MiniApi::start(Options {
        token: Some("secret".to_owned()),
        client_certificates: true,
        ..Options::default()
    })
    .unwrap();
    assert!(api.url().starts_with("https://127.0.0.1:"));
    let bearer = |token: &str| vec![("Authorization", format!("Bearer {token}"))];
    let certificate = Some(api.client_identity());
    for (certificate, headers, expect) in [
        (None, vec![], 401),
        (None, bearer("secret"), 200),
        (None, bearer("guess"), 401),
        (None, vec![("Authorization", "secret".to_owned())], 401),
        (certificate, vec![], 200),
    ] {
        let mut connection = Connection::tls(&api, certificate).unwrap();
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, it)| (*name, it.as_str()))
            .collect();
        let mut answer = connection.send("GET", SERVICES, &headers, "").unwrap();
        assert_eq!(answer.status, expect, "{headers:?}");
        answer.json();
        assert_eq!(connection.get("/readyz").unwrap().status, 200);
    }
    // A certificate of another authority is none.
    let other = MiniApi::start(Options::default()).unwrap();
    let mut stranger = Connection::tls(&api, Some(other.client_identity())).unwrap();
    assert!(stranger.get(SERVICES).is_err());
    // Without TLS there is no talking.
    let mut plain = Connection::to(&api).unwrap();
    assert!(plain.get(SERVICES).is_err());
}

#[test]
fn tls_ends_without_saying_goodbye() {
    let api = MiniApi::start(Options::default()).unwrap();
    put(&api, &["a"]);
    for (how, expect) in [
        (Cut::Close, ErrorKind::UnexpectedEof),
        (Cut::Reset, ErrorKind::ConnectionReset),
    ] {
        let cut = Fault::Cut { after: 40, how };
        api.inject(cut.on(Verb::List, "").once());
        let mut connection = Connection::tls(&api, None).unwrap();
        let mut answer = connection.get(SERVICES).unwrap();
        assert_eq!(answer.bytes().1, Some(expect));
    }
}

#[test]
fn tokens_rotate() {
    let api = start(Options {
        token: Some("old".to_owned()),
        ..Options::default()
    });
    let ask = |token: &str| {
        let mut connection = Connection::to(&api).unwrap();
        let value = format!("Bearer {token}");
        let headers = [("Authorization", value.as_str())];
        connection
            .send("GET", SERVICES, &headers, "")
            .unwrap()
            .status
    };
    assert_eq!((ask("old"), ask("new")), (200, 401));
    api.set_token(Some("new"));
    assert_eq!((ask("old"), ask("new")), (401, 200));
    api.set_token(None);
    assert_eq!(get(&api, SERVICES).0, 200);
}

#[test]
fn clients_find_their_files() {
    let api = MiniApi::start(Options {
        token: Some("sec\"ret".to_owned()),
        ..Options::default()
    })
    .unwrap();
    let text = api.kubeconfig();
    let ca = BASE64_STANDARD.encode(api.ca_pem());
    for line in [
        format!("    server: {}\n", api.url()),
        format!("    certificate-authority-data: {ca}\n"),
        "    token: \"sec\\\"ret\"\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} in\n{text}");
    }
    api.set_token(None);
    assert!(api.kubeconfig().contains("    client-key-data: "));
    assert!(plain().kubeconfig().contains("  user: {}\n"));
    let folder = tempfile::tempdir().unwrap();
    api.set_token(Some("other"));
    api.write_service_account(folder.path()).unwrap();
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("ca.crt"), api.ca_pem());
    assert_eq!(
        (read("token"), read("namespace")),
        ("other".into(), "kube-system".into())
    );
    let nowhere = folder.path().join("missing");
    let error = api.write_service_account(&nowhere).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
}

#[test]
fn a_stopped_server_starts_again_with_its_objects() {
    let api = plain();
    let version = put(&api, &["a"]);
    let mut idle = Connection::to(&api).unwrap();
    idle.get(SERVICES).unwrap().text().unwrap();
    let mut watching = Connection::to(&api).unwrap();
    let mut stream = watching.get("/api/v1/services?watch=1").unwrap();
    assert_eq!(stream.short(), "ADDED a");
    api.stop().unwrap();
    api.stop().unwrap();
    assert_eq!(api.open_watches(""), 0);
    assert!(stream.line().is_err());
    assert!(idle.get(SERVICES).is_err());
    let refused = TcpStream::connect(api.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    put(&api, &["b"]);
    api.start_again().unwrap();
    let (_, list) = get(&api, SERVICES);
    assert_eq!(names(&list), ["a", "b"]);
    assert!(api.resource_version() > version);
}

#[test]
fn closed_doors_leave_open_connections_alone() {
    let api = plain();
    let mut old = Connection::to(&api).unwrap();
    old.get("/version").unwrap().text().unwrap();
    api.refuse_connections().unwrap();
    assert!(Connection::to(&api).is_err());
    assert_eq!(old.get("/version").unwrap().json()["minor"], "36");
    api.start_again().unwrap();
    api.mute_connections().unwrap();
    let mut muted = Connection::to(&api).unwrap();
    muted.socket().set_read_timeout(Some(SHORT)).unwrap();
    let error = muted.get(SERVICES).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(old.get(SERVICES).unwrap().status, 200);
    api.start_again().unwrap();
    muted.socket().set_read_timeout(Some(LONG)).unwrap();
    assert!(muted.get(SERVICES).is_err(), "it was closed");
    assert_eq!(get(&api, SERVICES).0, 200);
}

#[test]
fn all_connections_are_cut() {
    let api = plain();
    for (how, expect) in [
        (Cut::Reset, ErrorKind::ConnectionReset),
        (Cut::Close, ErrorKind::UnexpectedEof),
    ] {
        let mut connection = Connection::to(&api).unwrap();
        let mut stream = connection.get("/api/v1/services?watch=1").unwrap();
        api.cut_connections(how).unwrap();
        assert_eq!(stream.bytes().1, Some(expect));
    }
}

#[test]
fn a_dropped_server_is_gone() {
    let api = plain();
    let address = api.address();
    let mut connection = Connection::to(&api).unwrap();
    let mut stream = connection.get("/api/v1/services?watch=1").unwrap();
    drop(api);
    assert_eq!(stream.bytes().1, Some(ErrorKind::UnexpectedEof));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn an_address_in_use_is_refused() {
    let api = plain();
    let taken = Options {
        address: api.address(),
        ..Options::default()
    };
    let error = MiniApi::start(taken).err().unwrap();
    let expect = format!("listen on {}: ", api.address());
    assert!(error.to_string().starts_with(&expect), "{error}");
}

#[test]
fn requests_are_remembered() {
    let api = plain();
    let mut connection = Connection::to(&api).unwrap();
    let headers = [
        ("User-Agent", "tester/1"),
        ("Authorization", "Bearer x"),
        ("Accept", "application/json"),
        ("Content-Type", "text/plain"),
    ];
    let path = "/api/v1/services?labelSelector=a%3Db&watch=true";
    connection.send("GET", path, &headers, "").unwrap();
    get(&api, "/version");
    assert!(api.await_requests(LONG, |it| it.len() == 2));
    let requests = api.requests();
    let first = &requests[0];
    assert_eq!(
        (first.method.as_str(), first.path.as_str()),
        ("GET", SERVICES)
    );
    assert_eq!(first.query, "labelSelector=a%3Db&watch=true");
    assert_eq!(first.parameter("labelSelector").as_deref(), Some("a=b"));
    assert!(first.is_watch() && !requests[1].is_watch());
    assert_eq!(first.user_agent.as_deref(), Some("tester/1"));
    assert_eq!(first.authorization.as_deref(), Some("Bearer x"));
    assert_eq!(first.accept.as_deref(), Some("application/json"));
    assert_eq!(first.content_type.as_deref(), Some("text/plain"));
    assert_eq!((first.connection, requests[1].connection), (1, 2));
    api.clear_requests();
    assert!(!api.await_requests(Duration::ZERO, |it| !it.is_empty()));
}
