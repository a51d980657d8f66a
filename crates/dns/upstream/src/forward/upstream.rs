//! One upstream: how it is asked, and whether it is up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hickory_proto::op::Message;
use hickory_proto::rr::RecordType;
use sluice_corefile::{Forward, ForwardProtocol};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::observer::{Observer, Origin, Proto};
use super::outgoing::{Outgoing, Trouble, refuses_edns};
use super::stream::{self, Connection, Pool, Stream};
use super::tls::Tls;
use super::{Transport, udp};
use crate::question::{Question, WithEdns};

/// How long an answer may take, as in CoreDNS.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may take. CoreDNS adapts this between 1 s and 30 s; a query as a whole
/// has only 5 s.
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the answer to a health check may take, as in CoreDNS.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// An upstream of a `forward`.
pub(super) struct Upstream {
    pub(super) config: Arc<Forward>,
    /// Address and port, for metrics and messages.
    pub(super) label: Arc<str>,
    pub(super) address: SocketAddr,
    /// `None`: plain DNS.
    pub(super) tls: Option<Tls>,
    pub(super) pool: Arc<Pool>,
    pub(super) observer: Arc<dyn Observer>,
    /// Health checks that failed since the last one that succeeded.
    pub(super) fails: AtomicU32,
    /// Whether health checks are under way.
    pub(super) checking: AtomicBool,
}

impl Upstream {
    /// Asks over `transport`, or over TLS where that is configured. A truncated answer is asked
    /// for again over TCP; it is returned only when TCP does not work.
    pub(super) async fn ask(
        &self,
        question: &Question,
        transport: Transport,
    ) -> Result<Message, Trouble> {
        let began = Instant::now();
        let mut answer = self.exchange(question, WithEdns::Yes, transport).await?;
        if refuses_edns(&answer) {
            answer = self.exchange(question, WithEdns::No, transport).await?;
        }
        self.observer
            .answered(&self.label, answer.response_code, began.elapsed());
        Ok(answer)
    }

    async fn exchange(
        &self,
        question: &Question,
        edns: WithEdns,
        transport: Transport,
    ) -> Result<Message, Trouble> {
        let query = Outgoing::new(question, edns)?;
        if transport == Transport::Tcp || self.tls.is_some() {
            return self.over_stream(&query).await;
        }
        self.observer
            .connected(&self.label, Proto::Udp, Origin::Opened);
        let read = limit(
            "receive over UDP",
            READ_TIMEOUT,
            udp::ask(self.address, &query),
        );
        match read.await {
            Ok(answer) if answer.truncation => {
                let query = Outgoing::new(question, edns)?;
                Ok(self.over_stream(&query).await.unwrap_or(answer))
            }
            Err(Trouble::Foreign) => {
                let query = Outgoing::new(question, edns)?;
                self.over_stream(&query).await
            }
            other => other,
        }
    }

    /// Over an idle connection or a new one. The server may close an idle connection at any time,
    /// so that an error on one only means that a new one is needed.
    async fn over_stream(&self, query: &Outgoing) -> Result<Message, Trouble> {
        let proto = self.tls.as_ref().map_or(Proto::Tcp, |_| Proto::Tls);
        if let Some(mut idle) = self.pool.take() {
            self.observer.connected(&self.label, proto, Origin::Reused);
            let asked = limit(
                "receive over TCP",
                READ_TIMEOUT,
                stream::ask(&mut idle, query),
            );
            match asked.await {
                Ok(answer) => {
                    self.pool.put(idle);
                    return Ok(answer);
                }
                Err(Trouble::Io { .. }) => self.pool.clear(),
                Err(other) => {
                    self.pool.clear();
                    return Err(other);
                }
            }
        }
        self.observer.connected(&self.label, proto, Origin::Opened);
        let mut opened = limit("connect TCP", DIAL_TIMEOUT, self.dial()).await?;
        let asked = stream::ask(&mut opened, query);
        let answer = limit("receive over TCP", READ_TIMEOUT, asked).await?;
        self.pool.put(opened);
        Ok(answer)
    }

    async fn dial(&self) -> Result<Connection, Trouble> {
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(Trouble::io("connect TCP"))?;
        stream
            .set_nodelay(true)
            .map_err(Trouble::io("connect TCP"))?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(
                tls.connect(stream)
                    .await
                    .map_err(Trouble::io("connect TLS"))?,
            ),
        };
        Ok(Connection::new(stream))
    }

    /// Whether more health checks failed in a row than allowed.
    pub(super) fn is_down(&self) -> bool {
        let max = self.config.max_fails;
        max != 0 && self.fails.load(Ordering::Relaxed) > max
    }

    /// Checks in the background until a check succeeds. Nothing happens when checks are under way
    /// or switched off.
    pub(super) fn check_health(self: &Arc<Self>) {
        if self.config.max_fails == 0 || self.checking.swap(true, Ordering::Relaxed) {
            return;
        }
        let upstream = Arc::downgrade(self);
        tokio::spawn(async move {
            // A new configuration drops the upstream, which ends its checks.
            while let Some(upstream) = upstream.upgrade() {
                if upstream.probe().await.is_ok() {
                    upstream.fails.store(0, Ordering::Relaxed);
                    upstream.checking.store(false, Ordering::Relaxed);
                    return;
                }
                upstream.fails.fetch_add(1, Ordering::Relaxed);
                upstream.observer.health_check_failed(&upstream.label);
                let interval = upstream.config.health_check.interval;
                drop(upstream);
                sleep(interval).await;
            }
        });
    }

    /// One check. Any answer is a good one, SERVFAIL and REFUSED among them.
    async fn probe(&self) -> Result<(), Trouble> {
        let check = &self.config.health_check;
        let question = Question {
            recursion_desired: check.recursion_desired,
            ..Question::new(check.domain.clone(), RecordType::NS)
        };
        let query = Outgoing::new(&question, WithEdns::No)?;
        if self.config.protocol != ForwardProtocol::Tcp && self.tls.is_none() {
            let asked = udp::ask(self.address, &query);
            return limit("health check", PROBE_TIMEOUT, asked).await.map(drop);
        }
        let asked = async {
            let mut connection = self.dial().await?;
            stream::ask(&mut connection, &query).await
        };
        limit("health check", PROBE_TIMEOUT, asked).await.map(drop)
    }
}

async fn limit<T>(
    operation: &'static str,
    duration: Duration,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    timeout(duration, work)
        .await
        .unwrap_or(Err(Trouble::Timeout { operation }))
}
