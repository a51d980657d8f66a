//! What programs in the kernel say of the packets that they see: `sluice explain --trace`.

use std::fmt;

use serde::Serialize;

/// What a program did with one packet. Displays as a line for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sighting {
    /// Where it was: `arrives through eth0`, `leaves through eth0`, `a socket of this node`.
    pub place: String,
    /// The packet as it came: `10.0.0.1:4711 > 10.96.0.10:80/tcp`.
    pub packet: String,
    /// What became of it.
    pub fate: String,
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24} {}: {}", self.place, self.packet, self.fate)
    }
}

/// A watch of programs, until the value is dropped.
pub trait Witness {
    /// What they did since the last call, in order.
    fn seen(&mut self) -> Vec<Sighting>;
}
