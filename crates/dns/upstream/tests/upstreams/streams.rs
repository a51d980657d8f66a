//! TCP and TLS: which connections are used, kept and given up.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sluice_corefile::{Forward, ForwardProtocol, ForwardTls, Upstream, UpstreamTransport};
use sluice_upstream::{Failure, Forwarder, Transport};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_rustls::TlsAcceptor;

use crate::server::{Act, Over, Ports, Seen, Server, address, honest, send, silent};
use crate::{Recorder, Silent, addresses, config, question, skip};

fn tcp(to: &Server) -> Forward {
    Forward {
        protocol: ForwardProtocol::Tcp,
        ..config(&[to])
    }
}

async fn ask(forwarder: &Forwarder, text: &str) -> Vec<u8> {
    let response = forwarder.exchange(&question(text), Transport::Udp).await;
    addresses(&response.unwrap())
}

#[tokio::test]
async fn the_client_or_the_corefile_chooses_the_transport() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let table = [
        (ForwardProtocol::AsAsked, Transport::Udp, Over::Udp),
        (ForwardProtocol::AsAsked, Transport::Tcp, Over::Tcp),
        (ForwardProtocol::Tcp, Transport::Udp, Over::Tcp),
        (ForwardProtocol::PreferUdp, Transport::Tcp, Over::Udp),
    ];
    for (protocol, client, expected) in table {
        let forwarder = crate::forwarder(&Forward {
            protocol,
            ..config(&[&server])
        });
        forwarder.exchange(&question("a."), client).await.unwrap();
        assert_eq!(server.seen().last().unwrap().over, expected, "{protocol:?}");
    }
}

#[tokio::test]
async fn an_upstream_with_tcp_alone_answers() {
    let server = Server::start(Ports::TcpOnly, honest(1)).await;
    assert_eq!(ask(&crate::forwarder(&tcp(&server)), "a.").await, [1]);
}

#[tokio::test]
async fn a_connection_is_used_again_until_it_expires() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let (forwarder, recorder) = Recorder::forwarder(&tcp(&server));
    for text in ["a.", "b.", "c."] {
        ask(&forwarder, text).await;
    }
    assert_eq!(recorder.count("tcp Opened"), 1);
    assert_eq!(recorder.count("tcp Reused"), 2);
    let ports: Vec<u16> = server.seen().iter().map(|it| it.from.port()).collect();
    assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    skip(Duration::from_secs(10)).await;
    ask(&forwarder, "d.").await;
    assert_eq!(recorder.count("tcp Opened"), 2);
}

#[tokio::test]
async fn a_connection_is_closed_at_max_age() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let (forwarder, recorder) = Recorder::forwarder(&Forward {
        max_age: Some(Duration::from_secs(8)),
        ..tcp(&server)
    });
    for text in ["a.", "b.", "c."] {
        ask(&forwarder, text).await;
        skip(Duration::from_secs(5)).await;
    }
    assert_eq!(recorder.count("tcp Opened"), 2);
    assert_eq!(recorder.count("tcp Reused"), 1);
}

/// Asks two questions at once, which takes two connections.
async fn ask_two(forwarder: &Forwarder, texts: [&str; 2]) {
    let questions = texts.map(question);
    let (first, second) = tokio::join!(
        forwarder.exchange(&questions[0], Transport::Udp),
        forwarder.exchange(&questions[1], Transport::Udp),
    );
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn connections_that_the_server_closed_are_replaced() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let (forwarder, recorder) = Recorder::forwarder(&tcp(&server));
    ask_two(&forwarder, ["a.", "b."]).await;
    let _server = server.restart(Ports::Both, honest(2)).await;
    assert_eq!(ask(&forwarder, "c.").await, [2]);
    assert_eq!(recorder.count("tcp Reused"), 1);
    assert_eq!(recorder.count("tcp Opened"), 3);
    // The other old connection is not tried.
    ask_two(&forwarder, ["d.", "e."]).await;
    assert_eq!(recorder.count("tcp Reused"), 2);
    assert_eq!(recorder.count("tcp Opened"), 4);
}

#[tokio::test]
async fn max_idle_conns_bounds_what_is_kept() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let (forwarder, recorder) = Recorder::forwarder(&Forward {
        max_idle_conns: NonZeroUsize::new(1),
        ..tcp(&server)
    });
    ask_two(&forwarder, ["a.", "b."]).await;
    assert_eq!(recorder.count("tcp Opened"), 2);
    ask_two(&forwarder, ["a.", "b."]).await;
    assert_eq!(recorder.count("tcp Opened"), 3);
    assert_eq!(recorder.count("tcp Reused"), 1);
}

#[tokio::test]
async fn lies_over_tcp_are_ignored_too() {
    let server = Server::start(Ports::TcpOnly, |Seen { query, .. }| {
        let mut wrong_id = address(query, 66);
        wrong_id.metadata.id ^= 1;
        vec![
            send(&wrong_id),
            Act::Send(vec![7; 9]),
            send(&address(query, 1)),
        ]
    })
    .await;
    assert_eq!(ask(&crate::forwarder(&tcp(&server)), "a.").await, [1]);
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_is_a_failure() {
    let server = Server::start(Ports::TcpOnly, |_: &Seen| vec![Act::Close]).await;
    let forwarder = crate::forwarder(&Forward {
        max_connect_attempts: 1,
        ..tcp(&server)
    });
    let response = forwarder.exchange(&question("a."), Transport::Udp).await;
    assert!(matches!(response, Err(Failure::NoAnswer { .. })));
}

/// A certificate for `names`, which is its own authority.
struct Authority {
    folder: TempDir,
    acceptor: TlsAcceptor,
}

impl Authority {
    fn new(names: &[&str]) -> Self {
        Self::that_is(IsCa::NoCa, names)
    }

    /// `is_authority`: what the certificate says of itself.
    fn that_is(is_authority: IsCa, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
        let mut wanted = CertificateParams::new(names).unwrap();
        wanted.is_ca = is_authority;
        let key = KeyPair::generate().unwrap();
        let made = wanted.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), made.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.der().clone()], PrivateKeyDer::from(key))
            .unwrap();
        Self {
            folder,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn config(&self, to: &Server, server_name: Option<&str>) -> Forward {
        Forward {
            to: vec![Upstream {
                address: to.address,
                interface: None,
                transport: UpstreamTransport::Tls {
                    server_name: server_name.map(str::to_owned),
                },
            }],
            tls: ForwardTls {
                authority: Some(self.file()),
                client: None,
            },
            max_connect_attempts: 1,
            ..config(&[])
        }
    }
}

#[tokio::test]
async fn tls_asks_whom_it_can_trust() {
    let names = ["dns.example", "127.0.0.1"];
    // The second as `openssl req -x509` makes it.
    for is_authority in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let authority = Authority::that_is(is_authority, &names);
        let server = Server::start(Ports::Tls(authority.acceptor.clone()), honest(1)).await;
        for server_name in [Some("dns.example"), None] {
            let config = authority.config(&server, server_name);
            let (forwarder, recorder) = Recorder::forwarder(&config);
            assert_eq!(ask(&forwarder, "a.").await, [1]);
            assert_eq!(ask(&forwarder, "b.").await, [1]);
            assert_eq!(recorder.count("tcp-tls Opened"), 1);
            assert_eq!(recorder.count("tcp-tls Reused"), 1);
        }
        assert!(server.seen().iter().all(|it| it.over == Over::Tcp));
    }
}

#[tokio::test]
async fn tls_does_not_ask_others() {
    let authority = Authority::new(&["dns.example"]);
    let stranger = Authority::new(&["dns.example"]);
    let server = Server::start(Ports::Tls(authority.acceptor.clone()), honest(1)).await;
    let table = [
        (&authority, Some("other.example")),
        (&authority, None),
        (&stranger, Some("dns.example")),
    ];
    for (trusted, server_name) in table {
        let (forwarder, recorder) = Recorder::forwarder(&trusted.config(&server, server_name));
        let failure = forwarder
            .exchange(&question("a."), Transport::Udp)
            .await
            .unwrap_err();
        assert!(failure.to_string().contains("connect TLS"), "{failure}");
        // Nor is it healthy.
        recorder
            .wait_for(&format!("{} failed", server.address), 1)
            .await;
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn files_that_do_not_serve_are_named() {
    let authority = Authority::new(&["dns.example"]);
    let server = Server::start(Ports::UdpOnly, silent).await;
    let mut config = authority.config(&server, Some("dns.example"));
    let fails = |config: &Forward| {
        Forwarder::new(config, Arc::new(Silent), Handle::current())
            .err()
            .expect("the files do not serve")
            .to_string()
    };
    let missing = authority.folder.path().join("missing.pem");
    config.tls.authority = Some(missing.clone());
    let text = fails(&config);
    let read = format!("forward: read {}: ", missing.display());
    assert!(text.starts_with(&read), "{text}");
    let empty = authority.folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    config.tls.authority = Some(empty.clone());
    let text = fails(&config);
    let (read, none) = (
        format!("forward: read {}: ", empty.display()),
        format!("forward: {} has no certificate authority", empty.display()),
    );
    assert!(text.starts_with(&read) || text.starts_with(&none), "{text}");
    let text = fails(&authority.config(&server, Some("no name")));
    assert!(
        text.starts_with("forward: tls_servername no name: "),
        "{text}"
    );
}

#[tokio::test]
async fn a_missing_interface_is_named() {
    let server = Server::start(Ports::UdpOnly, silent).await;
    let mut config = config(&[&server]);
    config.to[0].address = "[fe80::1]:53".parse().unwrap();
    config.to[0].interface = Some("no-such-if".to_owned());
    let error = Forwarder::new(&config, Arc::new(Silent), Handle::current()).err();
    let text = error.unwrap().to_string();
    assert!(text.contains("[fe80::1]:53%no-such-if"), "{text}");
    config.to[0].interface = Some("lo".to_owned());
    assert!(Forwarder::new(&config, Arc::new(Silent), Handle::current()).is_ok());
}
