//! Writes packets as pcapng (draft-ietf-opsawg-pcapng), which tcpdump and Wireshark read.
//!
//! The older format pcap has no names of interfaces, and no room for more than one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Packet;

/// Types of blocks (sections 4.1 to 4.3).
const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

/// Tells a reader the byte order.
const MAGIC: u32 = 0x1A2B_3C4D;

/// `LINKTYPE_ETHERNET`.
const ETHERNET: u16 = 1;

/// Options of blocks.
const NAME: u16 = 2;
const FLAGS: u16 = 2;
const RESOLUTION: u16 = 9;

/// Timestamps are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Writes a pcapng file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The index of each interface in the file, by machine and interface.
    interfaces: BTreeMap<(String, String), u32>,
}

impl<W: Write> Writer<W> {
    /// Starts a file.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub fn new(out: W) -> io::Result<Self> {
        let interfaces = BTreeMap::new();
        let mut writer = Self { out, interfaces };
        let mut body = MAGIC.to_le_bytes().to_vec();
        body.extend(1_u16.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        // The length of the section is unknown.
        body.extend((-1_i64).to_le_bytes());
        writer.block(SECTION, &body)?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// Writes a packet, and before the first packet of an interface its description.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub fn write(&mut self, packet: &Packet) -> io::Result<()> {
        let key = (packet.machine.clone(), packet.interface.clone());
        let number = match self.interfaces.get(&key) {
            Some(number) => *number,
            None => self.interface(key)?,
        };
        let at = u64::try_from(packet.at.as_nanos()).unwrap_or(u64::MAX);
        let mut body = number.to_le_bytes().to_vec();
        body.extend(((at >> 32) as u32).to_le_bytes());
        body.extend((at as u32).to_le_bytes());
        body.extend(length(packet.bytes.len()).to_le_bytes());
        body.extend(length(packet.length).to_le_bytes());
        body.extend(&packet.bytes);
        pad(&mut body);
        let direction: u32 = if packet.outgoing { 2 } else { 1 };
        option(&mut body, FLAGS, &direction.to_le_bytes());
        option(&mut body, 0, &[]);
        self.block(PACKET, &body)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn interface(&mut self, key: (String, String)) -> io::Result<u32> {
        let mut body = ETHERNET.to_le_bytes().to_vec();
        body.extend(0_u16.to_le_bytes());
        // No options: packets are not truncated.
        body.extend(0_u32.to_le_bytes());
        option(&mut body, NAME, format!("{} {}", key.0, key.1).as_bytes());
        option(&mut body, RESOLUTION, &[NANOSECONDS]);
        option(&mut body, 0, &[]);
        self.block(INTERFACE, &body)?;
        let number = length(self.interfaces.len());
        self.interfaces.insert(key, number);
        Ok(number)
    }

    /// Writes a block, which has its length at both ends.
    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = length(body.len() + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(body)?;
        self.out.write_all(&length)
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("options are names and numbers");
    body.extend(code.to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(value);
    pad(body);
}

/// Pads to a multiple of four bytes, where every part of a block begins.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a packet is at most 64 KiB and its header")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Type and body of each block; checks that its two lengths are equal.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !file.is_empty() {
            let length = word(file, 4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(file, length - 4) as usize, length);
            found.push((word(file, 0), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        found
    }

    #[test]
    fn each_interface_is_named_once() {
        let packet = |machine: &str, bytes: &[u8]| Packet {
            at: Duration::new(1_700_000_000, 5),
            machine: machine.to_owned(),
            interface: "eth0".to_owned(),
            outgoing: machine == "node-b",
            bytes: bytes.to_vec(),
            length: 1500,
        };
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        for it in [
            packet("node-a", b"abcde"),
            packet("node-b", b"f"),
            packet("node-a", b""),
        ] {
            writer.write(&it).unwrap();
        }
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|it| it.0).collect();
        assert_eq!(
            kinds,
            [SECTION, INTERFACE, PACKET, INTERFACE, PACKET, PACKET]
        );
        assert_eq!(word(&blocks[0].1, 0), MAGIC);
        assert!(blocks[1].1.windows(11).any(|it| it == b"node-a eth0"));
        let first = &blocks[2].1;
        let nanoseconds = (u64::from(word(first, 4)) << 32) + u64::from(word(first, 8));
        assert_eq!(nanoseconds, 1_700_000_000_000_000_005);
        assert_eq!((word(first, 12), word(first, 16)), (5, 1500));
        assert_eq!(&first[20..28], b"abcde\0\0\0");
        assert_eq!(word(first, 32), 1, "it came in");
        assert_eq!(word(&blocks[4].1, 0), 1, "of the second interface");
        assert_eq!(word(&blocks[5].1, 0), 0, "of the first one again");
    }
}
