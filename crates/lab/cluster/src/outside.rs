//! The DNS server of names outside the cluster, on the LAN: it refuses all of them at once, where a resolver out of reach
//! would be waited for.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use anyhow::Context;
use sluice_lab::Cluster;

use crate::machines::Machines;

/// The port of DNS.
const PORT: u16 = 53;

/// Bytes of the header of a message (RFC 1035, section 4.1.1).
const HEADER: usize = 12;

/// The answer code `REFUSED`.
const REFUSED: u8 = 5;

/// The text of `/etc/resolv.conf` for machines that ask it.
pub(crate) fn resolv_conf() -> String {
    let lines = Cluster::lan_addresses().map(|it| format!("nameserver {it}\n"));
    lines.concat()
}

/// Refuses queries until the process ends.
///
/// # Errors
///
/// The addresses cannot be listened on.
pub(crate) fn refuse(machines: &Machines) -> anyhow::Result<()> {
    for address in Cluster::lan_addresses() {
        let address = SocketAddr::new(address, PORT);
        let socket = machines.lock().lan().run(|| UdpSocket::bind(address));
        let socket = socket.with_context(|| format!("listen on {address} of the LAN"))?;
        thread::spawn(move || serve(&socket));
    }
    Ok(())
}

fn serve(socket: &UdpSocket) {
    let mut message = [0; 4096];
    loop {
        // An error is about an earlier answer, whose client is gone.
        let Ok((length, client)) = socket.recv_from(&mut message) else {
            continue;
        };
        if let Some(answer) = refusal(&message[..length]) {
            // The client may be gone.
            let _ = socket.send_to(&answer, client);
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
    use super::*;

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
