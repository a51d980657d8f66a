//! The API over HTTPS, on a thread of its own.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use hyper::service::service_fn;
use sluice_http::{Budget, Limits, serve_each};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::answer::refuse;
use crate::body::{Unreadable, collect};
use crate::http::Api;
use crate::identity::Identity;

/// Most connections at a time. An eighth of them may be of one node: what holds more closes its own idle ones.
const CONNECTIONS: usize = 16_384;

/// A running server. Dropping it closes its connections and ends its thread.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `api` on `listeners`, which may be in other network namespaces.
    ///
    /// # Errors
    ///
    /// The thread cannot be started, or a listener cannot be used.
    pub fn start(
        api: Arc<Api>,
        listeners: Vec<TcpListener>,
        identity: &Identity,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let acceptor = TlsAcceptor::from(identity.server());
        let registered = runtime.enter();
        let listeners = listeners.into_iter().map(|it| {
            it.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(it)
        });
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        drop(registered);
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                let budget = Budget::shared(CONNECTIONS);
                for listener in listeners {
                    let (api, acceptor) = (api.clone(), acceptor.clone());
                    tasks.spawn(accept(api, listener, acceptor, budget.clone()));
                }
                // A message or the drop of the sender: both end the server.
                let _ = stopped.await;
            });
        };
        let thread = thread::Builder::new().name("api".to_owned()).spawn(run)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed there.
            let _ = thread.join();
        }
    }
}

async fn accept(
    api: Arc<Api>,
    listener: tokio::net::TcpListener,
    acceptor: TlsAcceptor,
    budget: Arc<Budget>,
) {
    let open = |stream: TcpStream| {
        let (api, acceptor) = (api.clone(), acceptor.clone());
        async move {
            // As Go's servers do: an event must not wait for the one before to be acknowledged.
            // Where it fails, events are only late.
            let _ = stream.set_nodelay(true);
            // The client speaks no TLS, or does not trust the certificate: it reports that itself.
            let stream = acceptor.accept(stream).await.ok()?;
            let is_certified = stream.get_ref().1.peer_certificates().is_some();
            let service = service_fn(move |request| {
                let api = api.clone();
                async move {
                    let (head, body) = hyper::Request::into_parts(request);
                    let body = match collect(body).await {
                        Ok(body) => body,
                        Err(why) => return why.status().map(|it| refuse(&it)),
                    };
                    let request = hyper::Request::from_parts(head, body);
                    Ok::<_, Unreadable>(api.answer_or_pass(request, is_certified).await)
                }
            });
            Some((stream, service))
        }
    };
    serve_each(listener, budget, Limits::API, open).await;
}

#[cfg(test)]
mod tests;
