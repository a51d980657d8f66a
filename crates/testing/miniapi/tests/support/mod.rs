//! A raw HTTP/1.1 client: it sees what a server does to the bytes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use sluice_miniapi::{MiniApi, Options};

/// Long enough for any machine; nothing waits that long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Silence for so long counts as silence.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) const SERVICES: &str = "/api/v1/services";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// A connection that stays open between requests.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Duplex>>,
    socket: TcpStream,
}

/// An answer, its body not yet read.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    body: Body<'a>,
}

struct Body<'a> {
    stream: &'a mut BufReader<Box<dyn Duplex>>,
    chunked: bool,
    /// Bytes left of the chunk or body; `None` at its end.
    left: Option<usize>,
}

/// A plain server with default options.
pub(crate) fn plain() -> MiniApi {
    start(Options::default())
}

/// A server without TLS.
pub(crate) fn start(options: Options) -> MiniApi {
    MiniApi::start(Options {
        tls: false,
        ..options
    })
    .unwrap()
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": name}},
        "spec": {"clusterIP": "10.0.0.1", "type": "ClusterIP"},
    })
}

/// The service with one label more.
pub(crate) fn labelled(name: &str, label: &str, value: &str) -> Value {
    let mut service = service(name);
    service["metadata"]["labels"][label] = value.into();
    service
}

/// Puts services of these names; returns the last version.
pub(crate) fn put(api: &MiniApi, names: &[&str]) -> u64 {
    api.put_all(names.iter().map(|it| service(it))).unwrap()
}

/// The names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(name).collect()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// GET on a connection of its own.
pub(crate) fn get(api: &MiniApi, path: &str) -> (u16, Value) {
    let mut connection = Connection::to(api).unwrap();
    let mut answer = connection.get(path).unwrap();
    (answer.status, answer.json())
}

/// Path and encoded parameters.
pub(crate) fn with(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("{path}?{}", query.finish())
}

impl Connection {
    pub(crate) fn to(api: &MiniApi) -> io::Result<Self> {
        let stream = TcpStream::connect(api.address())?;
        stream.set_read_timeout(Some(LONG))?;
        Ok(Self {
            socket: stream.try_clone()?,
            stream: BufReader::new(Box::new(stream)),
        })
    }

    /// The socket, to set how long a read waits.
    pub(crate) fn socket(&self) -> TcpStream {
        self.socket.try_clone().unwrap()
    }

    /// TLS, with the server's client certificate if wanted.
    pub(crate) fn tls(api: &MiniApi, certificate: Option<(String, String)>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(api.ca_pem().as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = "127.0.0.1".try_into().unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(api.address())?;
        stream.set_read_timeout(Some(LONG))?;
        Ok(Self {
            socket: stream.try_clone()?,
            stream: BufReader::new(Box::new(StreamOwned::new(session, stream))),
        })
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer<'_>> {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer<'_>> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: mini\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes())?;
        stream.flush()?;
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let Some(status) = line.strip_prefix(b"HTTP/1.1 ") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let status = std::str::from_utf8(&status[..3]).unwrap().parse().unwrap();
        let mut line = String::new();
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) => {
                    headers.insert(name.to_lowercase(), value.to_owned());
                }
                None => break,
            }
        }
        let length = headers.get("content-length").map(|it| it.parse().unwrap());
        let chunked = headers.contains_key("transfer-encoding");
        Ok(Answer {
            status,
            headers,
            body: Body {
                stream: &mut self.stream,
                chunked,
                left: if chunked { Some(0) } else { length },
            },
        })
    }
}

impl Answer<'_> {
    /// The whole body.
    pub(crate) fn text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.body.read_to_end(&mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    /// What comes of the body, and the error that ended it.
    pub(crate) fn bytes(&mut self) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut bytes = Vec::new();
        let error = self.body.read_to_end(&mut bytes).err();
        (bytes, error.map(|it| it.kind()))
    }

    /// The next bytes of the body.
    pub(crate) fn some(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.body.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn json(&mut self) -> Value {
        serde_json::from_str(&self.text().unwrap()).unwrap()
    }

    /// The next line of a watch; `None` at its proper end.
    pub(crate) fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.body.read(&mut byte)? > 0 {
            line.push(byte[0]);
            if byte[0] == b'\n' {
                return Ok(Some(String::from_utf8(line).unwrap()));
            }
        }
        assert!(line.is_empty(), "an unfinished line: {line:?}");
        Ok(None)
    }

    /// The next event of a watch.
    pub(crate) fn event(&mut self) -> Value {
        let line = self.line().unwrap().expect("the watch ended");
        serde_json::from_str(&line).unwrap()
    }

    /// The next event in short: `ADDED name`, `BOOKMARK`, `ERROR 410`.
    pub(crate) fn short(&mut self) -> String {
        let event = self.event();
        let kind = event["type"].as_str().unwrap();
        match (
            &event["object"]["code"],
            event["object"]["metadata"]["name"].as_str(),
        ) {
            (Value::Number(code), _) => format!("{kind} {code}"),
            (_, Some(name)) => format!("{kind} {name}"),
            _ => kind.to_owned(),
        }
    }
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = &mut self.left else {
            return Ok(0);
        };
        if *left == 0 && self.chunked {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16);
            *left = size.map_err(|_| io::ErrorKind::UnexpectedEof)?;
            if *left == 0 {
                self.stream.read_line(&mut line)?;
            }
        }
        if *left == 0 {
            self.left = None;
            return Ok(0);
        }
        let size = buffer.len().min(*left);
        let read = self.stream.read(&mut buffer[..size])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= read;
        if *left == 0 && self.chunked {
            let mut end = [0; 2];
            self.stream.read_exact(&mut end)?;
        }
        Ok(read)
    }
}
