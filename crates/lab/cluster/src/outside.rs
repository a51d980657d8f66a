//! The DNS server of names outside the cluster, on the LAN. It refuses all of them at once, where a resolver out of reach would
//! be waited for; or it asks the machine's own resolver.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Context;
use sluice_lab::Cluster;

use crate::host_resolver::PORT;
use crate::machines::Machines;

/// Bytes of the header of a message (RFC 1035, section 4.1.1).
const HEADER: usize = 12;

/// The answer code `REFUSED`.
const REFUSED: u8 = 5;

/// Most bytes of a message.
const MESSAGE: usize = 65_535;

/// The text of `/etc/resolv.conf` for machines that ask it.
pub(crate) fn resolv_conf() -> String {
    let lines = Cluster::lan_addresses().map(|it| format!("nameserver {it}\n"));
    lines.concat()
}

/// Answers queries until the process ends: what `upstream` answers, or refusals.
///
/// # Errors
///
/// The addresses cannot be listened on.
pub(crate) fn start(machines: &Machines, upstream: Option<UdpSocket>) -> anyhow::Result<()> {
    let upstream = upstream.map(|it| Upstream::start(Arc::new(it)));
    let upstream = upstream.transpose()?;
    for address in Cluster::lan_addresses() {
        let address = SocketAddr::new(address, PORT);
        let socket = machines.lock().lan().run(|| UdpSocket::bind(address));
        let socket = socket.with_context(|| format!("listen on {address} of the LAN"))?;
        let (socket, upstream) = (Arc::new(socket), upstream.clone());
        thread::spawn(move || serve(&socket, upstream.as_ref()));
    }
    Ok(())
}

fn serve(socket: &Arc<UdpSocket>, upstream: Option<&Upstream>) {
    let mut message = [0; MESSAGE];
    loop {
        // An error is about an earlier answer, whose client is gone.
        let Ok((length, client)) = socket.recv_from(&mut message) else {
            continue;
        };
        let query = &mut message[..length];
        let Some(refusal) = refusal(query) else {
            continue;
        };
        let is_asked = upstream.is_some_and(|it| it.ask(query, socket, client));
        if !is_asked {
            // The client may be gone.
            let _ = socket.send_to(&refusal, client);
        }
    }
}

/// Who waits for an answer: its socket, its address and the id of its query.
type Client = (Arc<UdpSocket>, SocketAddr, [u8; 2]);

/// A resolver, and who waits for its answers.
#[derive(Clone, Debug)]
struct Upstream {
    socket: Arc<UdpSocket>,
    waiting: Arc<Mutex<Waiting>>,
}

/// By the id that the resolver gets. A query without an answer is forgotten when its id is used again.
#[derive(Debug, Default)]
struct Waiting {
    last: u16,
    clients: BTreeMap<u16, Client>,
}

impl Upstream {
    /// Passes on the answers that come in through a connected socket.
    fn start(socket: Arc<UdpSocket>) -> anyhow::Result<Self> {
        let upstream = Self {
            socket,
            waiting: Arc::default(),
        };
        let answers = upstream.clone();
        thread::Builder::new()
            .spawn(move || answers.pass_on())
            .context("start a thread")?;
        Ok(upstream)
    }

    /// Asks the resolver for a client. Returns whether the query is on its way.
    fn ask(&self, query: &mut [u8], socket: &Arc<UdpSocket>, client: SocketAddr) -> bool {
        let id = {
            let mut waiting = self.waiting.lock().expect("nobody panics with it");
            waiting.last = waiting.last.wrapping_add(1);
            let id = waiting.last;
            let client = (socket.clone(), client, [query[0], query[1]]);
            waiting.clients.insert(id, client);
            id
        };
        query[..2].copy_from_slice(&id.to_be_bytes());
        // An error that waits at the socket is about an earlier query: the next attempt reports this one's.
        self.socket.send(query).is_ok() || self.socket.send(query).is_ok()
    }

    fn pass_on(&self) {
        let mut message = [0; MESSAGE];
        loop {
            // An error is about an earlier query, which its client will ask again.
            let Ok(length) = self.socket.recv(&mut message) else {
                continue;
            };
            let answer = &mut message[..length];
            let Some((id, _)) = answer.split_first_chunk::<2>() else {
                continue;
            };
            let id = u16::from_be_bytes(*id);
            let waiting = self.waiting.lock();
            let client = waiting.expect("nobody panics with it").clients.remove(&id);
            if let Some((socket, address, id)) = client {
                answer[..2].copy_from_slice(&id);
                // The client may be gone.
                let _ = socket.send_to(answer, address);
            }
        }
    }
}

/// The refusal of a query; `None` for what is none.
fn refusal(query: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = query.split_at_checked(HEADER)?;
    let is_query = header[2] & 0x80 == 0;
    let questions = u16::from_be_bytes([header[4], header[5]]);
    if !is_query || questions != 1 {
        return None;
    }
    let mut end = 0;
    loop {
        match usize::from(*rest.get(end)?) {
            0 => break,
            // A pointer has nothing to point to.
            64.. => return None,
            length => end += 1 + length,
        }
    }
    // The root, the type and the class.
    let question = rest.get(..end + 5)?;
    let mut answer = header.to_vec();
    // An answer with the operation and the wish for recursion of the query, which is there.
    answer[2] = 0x80 | header[2] & 0x79;
    answer[3] = 0x80 | REFUSED;
    answer[6..].fill(0);
    answer.extend(question);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_answer_goes_to_whoever_asked() {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (resolver, ours, lan) = (socket(), socket(), socket());
        ours.connect(resolver.local_addr().unwrap()).unwrap();
        let (at, ours) = (lan.local_addr().unwrap(), Arc::new(ours));
        let upstream = Upstream::start(ours).unwrap();
        thread::spawn(move || serve(&Arc::new(lan), Some(&upstream)));
        let question = b"\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        // Two clients with the same id.
        let clients = [socket(), socket()];
        let mut asked = Vec::new();
        for client in &clients {
            client
                .send_to(&[&[7, 7], &question[..]].concat(), at)
                .unwrap();
            let mut message = [0; 512];
            let (length, from) = resolver.recv_from(&mut message).unwrap();
            assert_eq!(message[2..length], question[..]);
            asked.push((message[..2].to_vec(), from));
        }
        assert_ne!(asked[0].0, asked[1].0);
        // The later one is answered first, and an answer that nobody asked for is dropped.
        let numbers = ["second", "first"].into_iter().zip(asked.iter().rev());
        for (text, (id, from)) in numbers {
            for _ in 0..2 {
                resolver
                    .send_to(&[id, text.as_bytes()].concat(), from)
                    .unwrap();
            }
        }
        for (client, text) in clients.iter().zip(["first", "second"]) {
            let mut message = [0; 512];
            let length = client.recv(&mut message).unwrap();
            assert_eq!(message[..length], [&[7, 7], text.as_bytes()].concat());
        }
    }

    #[test]
    fn a_query_is_refused_with_its_question() {
        let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
        let mut query = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01".to_vec();
        query.extend(question);
        // Nothing after the question comes back.
        query.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
        let mut answer = b"\x12\x34\x81\x85\0\x01\0\0\0\0\0\0".to_vec();
        answer.extend(question);
        assert_eq!(refusal(&query), Some(answer.clone()));
        // An answer, and all that is cut short.
        assert_eq!(refusal(&answer), None);
        for length in 0..HEADER + question.len() {
            assert_eq!(refusal(&query[..length]), None, "{length}");
        }
        let pointer = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01";
        assert_eq!(refusal(pointer), None);
    }
}
