//! Connections that send nothing: how many stay, and for how long. Those that read nothing.

use std::net::SocketAddr;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::identity::{ClientCertificates, Pems};
use crate::store::{Settings, Store};

/// The connections of this machine in a budget of this size: half.
const CONNECTIONS: usize = 32;
const OWN: usize = CONNECTIONS / 2;

/// The longest silence, see [`Limits::API`].
const SILENCE: Duration = Duration::from_secs(100);

/// A server with a small budget, and the authority of its certificate.
async fn serve() -> (SocketAddr, String) {
    serve_store(Store::new(Settings::default())).await
}

async fn serve_store(store: Arc<Store>) -> (SocketAddr, String) {
    let names = ["127.0.0.1".to_owned()];
    let pems = Pems::make("test", &names, "admin").unwrap();
    let authority = pems.authority.clone();
    let identity = Identity::new(pems, ClientCertificates::Accepted).unwrap();
    let api = Api {
        store,
        logs: None,
        token: "secret".to_owned(),
        user: "admin".to_owned(),
        tokens: None,
        dial: None,
        metrics: None,
        programs: None,
        sessions: crate::http::Sessions::default(),
        requests: crate::Requests::default(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(identity.server());
    let budget = Budget::shared(CONNECTIONS);
    tokio::spawn(accept(Arc::new(api), listener, acceptor, budget));
    (address, authority)
}

async fn open(address: SocketAddr, authority: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(address.ip().to_string()).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

/// The first line of the answer to a question on an open connection.
async fn ask(stream: &mut TlsStream<TcpStream>) -> String {
    let request = b"GET /readyz HTTP/1.1\r\nHost: api\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.unwrap();
    String::from_utf8_lossy(&head).into_owned()
}

/// Waits for the end of a connection.
async fn end(stream: &mut (impl AsyncRead + Unpin)) {
    // A reset is an end, too.
    let read = stream.read(&mut [0]).await;
    assert!(!read.is_ok_and(|it| it > 0), "nothing was asked");
}

#[tokio::test]
async fn silent_connections_are_counted() {
    let (address, authority) = serve().await;
    let mut silent = Vec::new();
    for _ in 0..OWN + 5 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // The oldest ones make room, one after the other, and one more for whoever asks.
    let mut client = open(address, &authority).await;
    assert_eq!(ask(&mut client).await, "HTTP/1.1 200 OK");
    for (at, stream) in silent.iter_mut().enumerate() {
        let is_open = at > 5;
        if is_open {
            let mut byte = [0];
            let nothing = stream.try_read(&mut byte).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock, "{at}");
        } else {
            let ended = timeout(Duration::from_secs(60), end(stream)).await;
            assert!(ended.is_ok(), "{at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silent_connections_end() {
    let (address, authority) = serve().await;
    let begin = Instant::now();
    // One that says nothing at all, one that asks nothing after the handshake, and one that asks nothing more.
    let mut mute = TcpStream::connect(address).await.unwrap();
    let mut greeted = open(address, &authority).await;
    let mut asked = open(address, &authority).await;
    assert_eq!(ask(&mut asked).await, "HTTP/1.1 200 OK");
    let mut rest = vec![0; 4096];
    // The rest of the answer.
    assert!(asked.read(&mut rest).await.unwrap() > 0);
    end(&mut mute).await;
    end(&mut greeted).await;
    end(&mut asked).await;
    let lasted = begin.elapsed();
    assert!(lasted >= SILENCE && lasted < SILENCE * 2, "{lasted:?}");
}

/// A list is more than the kernel takes from us for a client.
#[tokio::test]
async fn answers_that_nobody_reads_delay_no_other() {
    let store = Store::new(Settings::default());
    for at in 0..30 {
        let text = "x".repeat(1 << 19);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m-{at}")}, "data": {"a": text},
        });
        store.create(map).unwrap();
    }
    let (address, authority) = serve_store(store).await;
    let mut deaf = Vec::new();
    for question in ["", "?watch=1"].repeat((OWN - 1) / 2) {
        let mut stream = open(address, &authority).await;
        let path = format!("/api/v1/configmaps{question}");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer secret\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 15];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        deaf.push(stream);
    }
    let mut client = open(address, &authority).await;
    assert_eq!(ask(&mut client).await, "HTTP/1.1 200 OK");
}
