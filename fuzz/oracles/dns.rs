//! Assertions about any bytes as a query to the DNS server, for the fuzzer and the tests.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, OnceLock, RwLock};

use simple_dns::Packet;
use sluice_dns::{Options, Responder, Transport};
use sluice_zone::{Event, NamespaceRule, Objects};

#[path = "../../crates/dns/server/tests/support/cluster.rs"]
mod cluster;

/// Most plugins that answer by themselves.
const COREFILE: &str = ". {
    bind 127.0.0.1
    chaos
    nsid me
    rewrite name suffix .alias .default.svc.cluster.local answer auto
    rewrite name regex (.*)\\.long\\.example {1}.{1}.{1}.{1}.example
    template IN ANY example {
        match ^t(?P<number>[0-9]*)[.]example[.]$
        answer \"{{ .Name }} 60 IN TXT {{ .Group.number }}\"
        fallthrough
    }
    hosts {
        10.0.0.1 a.example b.example
        2001:db8::1 a.example
        fallthrough
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    loadbalance
    whoami
}";
/// Bytes of a header and of a question's type and class.
const HEADER: usize = 12;
const TYPE_AND_CLASS: usize = 4;
/// Where a header has the number of questions.
const QUESTIONS: Range<usize> = 4..6;
/// The two highest bits of a label's length: a pointer.
const POINTER: u8 = 0xc0;
/// Largest UDP response of a server without `bufsize`.
const LARGEST: usize = 1232;

fn responder() -> &'static Responder {
    static RESPONDER: OnceLock<Responder> = OnceLock::new();
    RESPONDER.get_or_init(|| {
        let pods: Vec<IpAddr> = (0..200).map(|it| IpAddr::from([10, 1, 0, it])).collect();
        let mut objects = Objects::new(NamespaceRule::Declared);
        for event in [
            cluster::namespace("default"),
            cluster::service("default", "one", &[[10, 96, 0, 1].into()]),
            cluster::service("default", "big", &[]),
            cluster::endpoints("default", "big", &pods),
            cluster::external_name("default", "outside", "a.example"),
            Event::SYNCED,
        ] {
            objects.absorb(&event, 1);
        }
        let corefile = cluster::corefile(COREFILE, 53);
        let objects = Arc::new(RwLock::new(objects));
        Responder::new(&corefile, objects, Options::default()).expect("it can be served")
    })
}

/// Answers the bytes as a query over UDP and TCP.
///
/// # Panics
/// When the answer cannot be read by another library, is too large, or is not that of the query.
pub fn check(query: &[u8]) {
    let client = SocketAddr::from(([10, 1, 0, 1], 40000));
    for transport in [Transport::Udp, Transport::Tcp] {
        let Some(answer) = responder().respond(query, client, transport) else {
            continue;
        };
        // The other library reads only types and classes that it knows in a question.
        let mut known = answer.clone();
        if let Some(length) = question(&answer) {
            known[HEADER + length - TYPE_AND_CLASS..HEADER + length].copy_from_slice(&[0, 1, 0, 1]);
        }
        let packet = Packet::parse(&known).unwrap_or_else(|it| panic!("{it:?}: {answer:02x?}"));
        assert_eq!(packet.id().to_be_bytes(), query[..2]);
        assert_ne!(answer[2] & 0x80, 0, "a response");
        if transport == Transport::Udp {
            assert!(answer.len() <= LARGEST, "{} bytes", answer.len());
        }
        // The question with its case, unless it could not be read.
        if !packet.questions.is_empty()
            && let Some(length) = question(query)
        {
            assert_eq!(
                answer[HEADER..HEADER + length],
                query[HEADER..HEADER + length]
            );
        }
    }
}

/// The length of the one question, whose name has no pointer.
fn question(message: &[u8]) -> Option<usize> {
    if message.get(QUESTIONS)? != [0, 1] {
        return None;
    }
    let mut rest = message.get(HEADER..)?;
    let mut length = 0;
    loop {
        let label = *rest.first()?;
        if label & POINTER != 0 {
            return None;
        }
        let size = 1 + usize::from(label);
        rest = rest.get(size..)?;
        length += size;
        if label == 0 {
            return rest.get(..TYPE_AND_CLASS).map(|_| length + TYPE_AND_CLASS);
        }
    }
}
