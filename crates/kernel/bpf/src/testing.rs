//! Runs of a program with a packet of bytes (`BPF_PROG_TEST_RUN`), for tests and benchmarks.

use std::time::Duration;

use aya::programs::{TestRun as _, TestRunOptions};

use crate::object::classifier;
use crate::{BpfError, Direction, Programs};

/// Offset of `ingress_ifindex` in `struct __sk_buff`.
const ARRIVED: usize = 36;
/// Offset of `ifindex` in `struct __sk_buff`.
const IFINDEX: usize = 40;
/// Length of `struct __sk_buff`.
const CONTEXT: usize = 192;
/// Room for bytes that a program adds to a packet.
const LONGER: usize = 256;

/// The result of running a program with a packet.
#[derive(Clone, Debug)]
pub struct Trial {
    /// `TC_ACT_UNSPEC` and so on.
    pub action: i32,
    /// The packet after the run.
    pub packet: Vec<u8>,
    /// The average duration of the runs.
    pub took: Duration,
}

impl Programs {
    /// Runs the program of a direction with an Ethernet frame, as if it passed the interface of this index, which is
    /// in the calling thread's network namespace. It arrived through the interface of index `arrived`, or is of a socket
    /// of the machine (0); the kernel replaces that where it arrives now. The program writes into the real maps. The second of `times` runs
    /// gets the frame as the first run left it.
    ///
    /// # Errors
    ///
    /// The kernel refuses the frame, because it is shorter than its headers, or knows no such interface; or the object has
    /// no program of this direction.
    pub fn try_packet(
        &self,
        direction: Direction,
        interface: u32,
        arrived: u32,
        packet: &[u8],
        times: u32,
    ) -> Result<Trial, BpfError> {
        let mut programs = self.object().packets.iter();
        let program = programs.find(|(_, it)| *it == direction);
        let (name, _) = program.ok_or_else(|| BpfError::Program {
            program: "of this direction",
            reason: "the object has no such program".to_owned(),
        })?;
        let mut context = [0; CONTEXT];
        context[IFINDEX..IFINDEX + 4].copy_from_slice(&interface.to_ne_bytes());
        context[ARRIVED..ARRIVED + 4].copy_from_slice(&arrived.to_ne_bytes());
        let mut out = vec![0; packet.len() + LONGER];
        let options = TestRunOptions {
            data_in: Some(packet),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            repeat: times,
            ..TestRunOptions::default()
        };
        let result = classifier(self.attacher().loaded(), name)?.test_run(options);
        let result = result.map_err(|error| BpfError::Machine {
            operation: "run a program with a packet",
            source: error.into(),
        })?;
        out.truncate(usize::try_from(result.data_size_out).unwrap_or(usize::MAX));
        Ok(Trial {
            action: result.return_value.cast_signed(),
            packet: out,
            took: result.duration,
        })
    }
}
