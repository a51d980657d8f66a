//! Requests that are passed on to pods.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use hyper::Request;
use rustls::{ServerConnection, StreamOwned};
use serde_json::json;
use sluice_api::answer::Answer;
use sluice_api::{ClientCertificates, Dial, Identity, Pems};

use crate::http::Client;

/// Every connection leads to one server.
struct To(SocketAddr);

impl Dial for To {
    fn dial(&self, target: SocketAddr) -> io::Result<TcpStream> {
        assert_eq!(target.to_string(), "10.0.0.9:8080");
        TcpStream::connect(self.0)
    }
}

trait Connection: Read + Write {}

impl<C: Read + Write> Connection for C {}

#[derive(Clone, Copy)]
enum Scheme {
    Http,
    Https,
}

/// An API with the pod `p` behind the Service `s`, and a server that answers one request with `answer`. The
/// thread returns the request.
fn world(scheme: Scheme, answer: &'static str) -> (Client, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Client::new();
    client.0.dial = Some(Arc::new(To(listener.local_addr().unwrap())));
    let store = &client.0.store;
    let container = json!({"name": "c", "image": "i", "ports": [{"containerPort": 8080}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}});
    let mut pod = (*store.create(pod).unwrap()).clone();
    pod["status"]["podIP"] = "10.0.0.9".into();
    store.update_status(pod).unwrap();
    let ports = json!([{"name": "web", "port": 80, "targetPort": 8080, "protocol": "TCP"}]);
    store
        .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}))
        .unwrap();
    store
        .create(json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"},
            "subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]}],
        }))
        .unwrap();
    let server = thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        let mut connection: Box<dyn Connection> = match scheme {
            Scheme::Http => Box::new(connection),
            Scheme::Https => {
                let pems = Pems::make("nobody", &["elsewhere".to_owned()], "nobody").unwrap();
                let identity = Identity::new(pems, ClientCertificates::Ignored).unwrap();
                let session = ServerConnection::new(identity.server()).unwrap();
                Box::new(StreamOwned::new(session, connection))
            }
        };
        let mut read = vec![0; 4096];
        let length = connection.read(&mut read).unwrap();
        connection.write_all(answer.as_bytes()).unwrap();
        connection.flush().unwrap();
        String::from_utf8_lossy(&read[..length]).into_owned()
    });
    (client, server)
}

fn ask(client: Client, method: &str, path: &str) -> (u16, String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1/namespaces/default/{path}"));
        let request = request
            .header("authorization", "Bearer secret")
            .header("x-own", "1");
        let answer: Answer = Arc::new(client.0)
            .answer_or_pass(request.body(Bytes::new()).unwrap(), false)
            .await;
        let (head, mut body) = answer.into_parts();
        let header = head
            .headers
            .get("x-theirs")
            .or(head.headers.get("location"));
        let header = header.map_or(String::new(), |it| it.to_str().unwrap().to_owned());
        let mut text = Vec::new();
        while let Some(frame) = std::future::poll_fn(|context| {
            hyper::body::Body::poll_frame(std::pin::Pin::new(&mut body), context)
        })
        .await
        {
            text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        (
            head.status.as_u16(),
            header,
            String::from_utf8(text).unwrap(),
        )
    })
}

const GOOD: &str = "HTTP/1.1 202 Accepted\r\nX-Theirs: 2\r\nConnection: close\r\n\r\nhello";

#[test]
fn a_request_reaches_a_pod_and_its_answer_the_client() {
    for (path, scheme) in [
        ("pods/p/proxy/a?b=c", Scheme::Http),
        ("pods/p:8080/proxy/a?b=c", Scheme::Http),
        ("services/s:web/proxy/a?b=c", Scheme::Http),
        ("services/s:80/proxy/a?b=c", Scheme::Http),
        ("pods/https:p:8080/proxy/a?b=c", Scheme::Https),
        ("services/https:s:web/proxy/a?b=c", Scheme::Https),
    ] {
        let (client, server) = world(scheme, GOOD);
        assert_eq!(
            ask(client, "POST", path),
            (202, "2".to_owned(), "hello".to_owned()),
            "{path}"
        );
        let seen = server.join().unwrap();
        assert!(
            seen.starts_with("POST /a?b=c HTTP/1.1\r\nhost: 10.0.0.9:8080\r\n"),
            "{seen}"
        );
        assert!(
            seen.contains("x-own: 1") && !seen.contains("secret"),
            "{seen}"
        );
    }
}

#[test]
fn what_cannot_be_passed_on_is_refused() {
    for (path, code, said) in [
        ("pods/none/proxy/", 404, "pods \"none\" not found"),
        (
            "services/s:81/proxy/",
            503,
            "no service port 81 found for service \"s\"",
        ),
        (
            "services/s/proxy/",
            503,
            "no endpoints available for service \"s\"",
        ),
    ] {
        let (client, _) = world(Scheme::Http, GOOD);
        let (is, _, text) = ask(client, "GET", path);
        assert_eq!(is, code, "{text}");
        assert!(
            text.contains(said) || text.contains(&said.replace('"', "\\\"")),
            "{text}"
        );
    }
    let (client, _) = world(Scheme::Http, GOOD);
    let (code, to, _) = ask(client, "GET", "pods/p/proxy?a=b");
    assert_eq!(
        (code, to.as_str()),
        (301, "/api/v1/namespaces/default/pods/p/proxy/?a=b")
    );
    let (client, _) = world(Scheme::Http, "nonsense");
    let (code, _, text) = ask(client, "GET", "pods/p/proxy/");
    assert!(
        code == 503 && text.contains("error trying to reach service"),
        "{text}"
    );
    // A server without TLS is no server for HTTPS.
    let (client, _) = world(Scheme::Http, GOOD);
    let (code, _, text) = ask(client, "GET", "pods/https:p:8080/proxy/");
    assert!(
        code == 503 && text.contains("error trying to reach service"),
        "{text}"
    );
}
