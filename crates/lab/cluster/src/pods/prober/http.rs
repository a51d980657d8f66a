//! Requests of probes and hooks over HTTP and HTTPS (`pkg/probe/http`).

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::HTTPGetAction;
use rustls::{ClientConnection, StreamOwned};
use sluice_api::unverified_client;

use crate::exchange::{exchange, no_answer};
use crate::timed::Timed;

/// A request to a container.
#[derive(Debug)]
pub(in crate::pods) struct Get {
    target: SocketAddr,
    is_tls: bool,
    path: String,
    headers: Vec<(String, String)>,
}

impl Get {
    pub(super) fn of(http: &HTTPGetAction, target: SocketAddr) -> Self {
        let host = match http.host.as_deref() {
            None | Some("") => target.to_string(),
            Some(host) => format!("{host}:{}", target.port()),
        };
        let given = http.http_headers.iter().flatten();
        let given: Vec<_> = given
            .map(|it| (it.name.clone(), it.value.clone()))
            .collect();
        let own = [
            ("Host", &*host),
            ("User-Agent", "kube-probe/1.36"),
            ("Accept", "*/*"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let is_given = |name: &str| given.iter().any(|it| it.0.eq_ignore_ascii_case(name));
        let mut headers = Vec::from(own);
        headers.retain(|(name, _)| !is_given(name));
        headers.extend(given);
        let path = http.path.as_deref().unwrap_or_default();
        Self {
            target,
            is_tls: http.scheme.as_deref() == Some("HTTPS"),
            path: format!("/{}", path.trim_start_matches('/')),
            headers,
        }
    }

    /// Asks from the network namespace of this thread. The error is the reason of the failure.
    pub(super) fn ask(&self, timeout: Duration) -> Result<(), String> {
        match self.status(timeout) {
            Ok(200..=399) => Ok(()),
            Ok(status) => Err(format!("HTTP probe failed with statuscode: {status}")),
            Err(error) => {
                let scheme = if self.is_tls { "https" } else { "http" };
                let (target, path) = (self.target, &self.path);
                Err(format!("Get \"{scheme}://{target}{path}\": {error}"))
            }
        }
    }

    fn status(&self, timeout: Duration) -> io::Result<u16> {
        let connection = Timed::connect(self.target, timeout)?;
        if !self.is_tls {
            return self.status_on(connection);
        }
        // The container's certificate is not verified, as by kubelet.
        let tls = ClientConnection::new(unverified_client(), self.target.ip().into());
        self.status_on(StreamOwned::new(tls.map_err(io::Error::other)?, connection))
    }

    fn status_on(&self, connection: impl Read + Write) -> io::Result<u16> {
        let answer = exchange(connection, &self.path, &self.headers)?;
        // A server that has answered may leave the connection open, or end it without a word of TLS.
        let status = answer.status.parse().ok();
        status.ok_or_else(|| answer.broken.unwrap_or_else(no_answer))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;

    use rustls::ServerConnection;
    use serde_json::json;
    use sluice_api::{ClientCertificates, Identity, Pems};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// What a server reads of a request of this probe until an empty line, and what the probe says to its answer.
    fn play(
        probe: serde_json::Value,
        answer: &str,
        serve: impl FnOnce(TcpStream) -> Box<dyn Stream> + Send,
    ) -> (Vec<String>, Result<(), String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = listener.local_addr().unwrap();
        let http: HTTPGetAction = serde_json::from_value(probe).unwrap();
        let (lines, result) = thread::scope(|scope| {
            let server = scope.spawn(|| {
                let mut stream = serve(listener.accept().unwrap().0);
                let mut lines = Vec::new();
                let mut reader = io::BufReader::new(&mut stream);
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    match line.trim_end() {
                        "" => break,
                        it => lines.push(it.to_owned()),
                    }
                }
                stream.write_all(answer.as_bytes()).unwrap();
                stream.flush().unwrap();
                lines
            });
            let result = Get::of(&http, target).ask(TIMEOUT);
            (server.join().unwrap(), result)
        });
        let target = target.to_string();
        let plain = |it: String| it.replace(&target, "TARGET");
        (
            lines.into_iter().map(plain).collect(),
            result.map_err(plain),
        )
    }

    trait Stream: Read + Write {}
    impl<T: Read + Write> Stream for T {}

    #[test]
    fn a_request_has_the_headers_of_kubelet_and_of_the_probe() {
        let plain = |it: TcpStream| Box::new(it) as Box<dyn Stream>;
        let probe = json!({"port": 1, "path": "healthz", "httpHeaders": [
            {"name": "Custom-Header", "value": "Awesome"}, {"name": "host", "value": "web"}]});
        let ok = "HTTP/1.1 302 Found\r\n\r\n";
        let (lines, result) = play(probe, ok, plain);
        let expected = [
            "GET /healthz HTTP/1.1",
            "User-Agent: kube-probe/1.36",
            "Accept: */*",
            "Custom-Header: Awesome",
            "host: web",
            "Connection: close",
        ];
        assert_eq!(
            (lines, result),
            (expected.map(str::to_owned).into(), Ok(()))
        );
        let failed = "HTTP/1.1 503 Service Unavailable\r\n\r\n";
        let (lines, result) = play(json!({"port": 1}), failed, plain);
        assert_eq!(lines[1], "Host: TARGET");
        let why = "HTTP probe failed with statuscode: 503";
        assert_eq!(result, Err(why.to_owned()));
        let (lines, result) = play(json!({"port": 1, "host": "web"}), "", plain);
        assert!(lines[1].starts_with("Host: web:"), "{lines:?}");
        let why = "Get \"http://TARGET/\": closed before an answer";
        assert_eq!(result, Err(why.to_owned()));
    }

    #[test]
    fn a_certificate_of_nobody_is_trusted() {
        let names = ["elsewhere.example".to_owned()];
        let pems = Pems::make("nobody", &names, "client").unwrap();
        let identity = Identity::new(pems, ClientCertificates::Ignored).unwrap();
        let tls = |stream: TcpStream| {
            let connection = ServerConnection::new(identity.server()).unwrap();
            Box::new(StreamOwned::new(connection, stream)) as Box<dyn Stream>
        };
        let probe = json!({"port": 1, "scheme": "HTTPS"});
        // It closes without TLS' own end.
        let (lines, result) = play(probe.clone(), "HTTP/1.1 200 OK\r\n\r\nfine", tls);
        assert_eq!((&*lines[0], result), ("GET / HTTP/1.1", Ok(())));
        let plain = "HTTP/1.0 400 Bad Request\r\n\r\n";
        let told = thread::scope(|scope| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let target = listener.local_addr().unwrap();
            scope.spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(plain.as_bytes()).unwrap();
            });
            let http: HTTPGetAction = serde_json::from_value(probe).unwrap();
            Get::of(&http, target).ask(TIMEOUT).unwrap_err()
        });
        assert!(told.starts_with("Get \"https://127.0.0.1:"), "{told}");
    }
}
