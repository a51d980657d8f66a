//! The server in the hands of a test.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use sluice_api::{ClientCertificates, History, Identity, KINDS, Pems, Registry, kubeconfig};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::body::Cut;
use crate::error::Error;
use crate::fault::{Faults, Trouble};
use crate::journal::Journal;
use crate::options::Options;
use crate::server::{self, Command, Commanded, Door, Shared};
use crate::watches::Watches;

mod account;
mod objects;
mod observation;

/// A running API server. Dropping it ends all connections and its thread.
#[derive(Debug)]
pub struct MiniApi {
    shared: Arc<Shared>,
    address: SocketAddr,
    commands: Option<UnboundedSender<Commanded>>,
    thread: Option<JoinHandle<()>>,
}

impl MiniApi {
    /// Starts a server with an empty store. When this returns, connections are accepted.
    ///
    /// # Errors
    ///
    /// Certificates, address or thread.
    pub fn start(options: Options) -> Result<Self, Error> {
        let identity = options.tls.then(|| identity(options.client_certificates));
        let shared = Arc::new(Shared {
            history: Arc::new(History::new(collections(), options.history)),
            watches: Arc::new(Watches::default()),
            journal: Journal::default(),
            faults: Faults::default(),
            token: Mutex::new(options.token.clone()),
            identity: identity.transpose()?,
            sent: Arc::new(AtomicU64::new(0)),
            options,
        });
        let (commands, receiver) = unbounded_channel();
        let (started, start) = mpsc::channel();
        let server = shared.clone();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = started.send(Err(Error::Thread(error.to_string())));
                    return;
                }
            };
            runtime.block_on(async {
                let address = server.options.address;
                let listening = server::listen(address).and_then(|it| {
                    let wrong = |cause| Error::Listen { address, cause };
                    let real = it.local_addr().map_err(wrong)?;
                    Ok((it, real))
                });
                match listening {
                    Ok((listener, address)) => {
                        let _ = started.send(Ok(address));
                        server::run(server.clone(), listener, address, receiver).await;
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            });
        };
        let thread = thread::Builder::new()
            .name("mini-api".to_owned())
            .spawn(run);
        let thread = thread.map_err(|it| Error::Thread(it.to_string()))?;
        let gone = |_| Error::Thread("it ended before it started".to_owned());
        let address = start.recv().map_err(gone)??;
        Ok(Self {
            shared,
            address,
            commands: Some(commands),
            thread: Some(thread),
        })
    }

    /// `https://127.0.0.1:PORT`, or `http` without TLS.
    pub fn url(&self) -> String {
        let scheme = if self.shared.options.tls {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port it listens on. It stays the same through stops and starts.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The authority's certificate; empty without TLS.
    pub fn ca_pem(&self) -> String {
        let identity = self.shared.identity.as_ref();
        identity
            .map(|it| it.pems.authority.clone())
            .unwrap_or_default()
    }

    /// Certificate and key of a client, in PEM; empty without TLS. Good for requests if
    /// [`Options::client_certificates`] is set.
    pub fn client_identity(&self) -> (String, String) {
        let identity = self.shared.identity.as_ref();
        let pair = |it: &Identity| {
            let pems = &it.pems;
            (pems.client_certificate.clone(), pems.client_key.clone())
        };
        identity.map(pair).unwrap_or_default()
    }

    /// A kubeconfig with the authority embedded and the token, or else the client's certificate.
    pub fn kubeconfig(&self) -> String {
        let token = self.token();
        let pems = self.shared.identity.as_ref().map(|it| &it.pems);
        kubeconfig("mini", &self.url(), pems, token.as_deref())
    }

    /// Writes `ca.crt`, `token` and `namespace` (`kube-system`) into `folder`, as pods find them.
    ///
    /// # Errors
    ///
    /// The file that could not be written.
    pub fn write_service_account(&self, folder: &Path) -> Result<(), Error> {
        let token = self.token().unwrap_or_default();
        account::write_service_account(folder, &self.ca_pem(), &token)
    }

    /// The token that is good now.
    pub fn token(&self) -> Option<String> {
        self.shared
            .token
            .lock()
            .expect("nobody panics with it")
            .clone()
    }

    /// Rotates the token: from now on only this one is good. Open watches go on, as in real life.
    pub fn set_token(&self, token: Option<&str>) {
        let mut slot = self.shared.token.lock().expect("nobody panics with it");
        *slot = token.map(str::to_owned);
    }

    /// Misbehaves as `trouble` says. Of several faults for one request the first one injected that
    /// is not used up acts, alone.
    pub fn inject(&self, trouble: Trouble) {
        self.shared.faults.inject(trouble);
    }

    /// Takes back every injected fault. What already struck goes on for its request.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// Stops as a server that dies: nobody listens and every connection is closed. The store stays.
    ///
    /// # Errors
    ///
    /// The server is gone for good.
    pub fn stop(&self) -> Result<(), Error> {
        self.command(Command::Door(Door::Closed))?;
        self.command(Command::Cut(Cut::Close))
    }

    /// Listens again on the same port, after [`stop`](Self::stop),
    /// [`refuse_connections`](Self::refuse_connections) or
    /// [`mute_connections`](Self::mute_connections).
    ///
    /// # Errors
    ///
    /// The port could not be listened on, or the server is gone for good.
    pub fn start_again(&self) -> Result<(), Error> {
        self.command(Command::Door(Door::Open))
    }

    /// Closes the listener, so that connecting is refused. Open connections go on.
    ///
    /// # Errors
    ///
    /// The server is gone for good.
    pub fn refuse_connections(&self) -> Result<(), Error> {
        self.command(Command::Door(Door::Closed))
    }

    /// Accepts new connections and never reads from them, not even for TLS. Open connections go on.
    ///
    /// # Errors
    ///
    /// The server is gone for good.
    pub fn mute_connections(&self) -> Result<(), Error> {
        self.command(Command::Door(Door::Mute))
    }

    /// Ends every open connection, busy or idle. They are gone when this returns.
    ///
    /// # Errors
    ///
    /// The server is gone for good.
    pub fn cut_connections(&self, how: Cut) -> Result<(), Error> {
        self.command(Command::Cut(how))
    }

    fn command(&self, command: Command) -> Result<(), Error> {
        let gone = || Error::Thread("it has ended".to_owned());
        let (reply, answer) = mpsc::channel();
        let commands = self.commands.as_ref().ok_or_else(gone)?;
        commands.send((command, reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for MiniApi {
    fn drop(&mut self) {
        // Without the sender the server's loop ends.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}

/// Certificates for loopback.
fn identity(accepts_clients: bool) -> Result<Identity, Error> {
    let names = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"];
    let pems = Pems::make("mini-ca", &names.map(str::to_owned), "system:kube-proxy")?;
    let clients = if accepts_clients {
        ClientCertificates::Accepted
    } else {
        ClientCertificates::Ignored
    };
    Ok(Identity::new(pems, clients)?)
}

/// Every collection but the Secrets, which no client of these tests may read.
fn collections() -> Registry {
    let kinds = KINDS.iter();
    let kinds = kinds.filter(|it| it.plural != "secrets");
    kinds.cloned().collect()
}
