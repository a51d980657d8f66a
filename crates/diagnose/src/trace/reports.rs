//! The reports about the packet, out of all reports.

use std::time::Instant;

use sluice_netlink::SocketError;
use sluice_nft::{Fate, HookPoint, Step, Verdict};

use super::checkpoints::{Checkpoint, Checkpoints};
use super::way::{LOOPBACK, interface};
use super::{PATIENCE, TraceError};

/// The kernel's reports about one packet.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// In the order of the way.
    pub(super) steps: Vec<(Step, Option<Checkpoint>)>,
    /// The kernel dropped reports, this packet's or others'.
    pub(super) is_incomplete: bool,
}

/// Collects reports until the packet has passed its last hook or is dropped, at most 2 s. The first
/// report must come before `first`; with `is_refused` it has come already or never will.
pub(super) fn collect(
    checkpoints: &mut Checkpoints,
    first: Instant,
    is_refused: bool,
) -> Result<Reports, TraceError> {
    let mut reports = Reports::default();
    let mut deadline = if is_refused { Instant::now() } else { first };
    let mut packet = Packet::default();
    loop {
        let step = match checkpoints.tracer.wait(deadline) {
            Ok(Some(step)) => step,
            Ok(None) => return Ok(reports),
            Err(SocketError::Overrun) => {
                reports.is_incomplete = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let checkpoint = checkpoints.at(&step);
        if !packet.takes(&step, checkpoint) {
            continue;
        }
        if reports.steps.is_empty() {
            deadline = Instant::now() + PATIENCE;
        }
        let is_end = step.fate == Fate::Verdict(Verdict::Drop) || packet.is_at_end;
        reports.steps.push((step, checkpoint));
        if is_end {
            return Ok(reports);
        }
    }
}

/// The numbers of one packet: on loopback it gets a second one.
#[derive(Debug, Default)]
struct Packet {
    first: Option<u32>,
    /// Left through loopback, so that the second number may come.
    is_on_loopback: bool,
    second: Option<u32>,
    is_at_end: bool,
}

impl Packet {
    /// Whether a report is about this packet. The first report that is one of our rules' begins it:
    /// other programs may trace other packets.
    fn takes(&mut self, step: &Step, checkpoint: Option<Checkpoint>) -> bool {
        let is_ours = match self.first {
            None if checkpoint.is_some() && step.handle.is_some() => {
                self.first = Some(step.packet);
                true
            }
            None => false,
            Some(first) if first == step.packet || self.second == Some(step.packet) => true,
            Some(_) => {
                let is_back = interface(step.incoming).as_deref() == Some(LOOPBACK);
                let is_second = self.is_on_loopback && self.second.is_none() && is_back;
                if is_second {
                    self.second = Some(step.packet);
                }
                is_second
            }
        };
        // The first report of a chain knows the interfaces.
        if is_ours
            && step.header.is_some()
            && let Some(Checkpoint::Last(hook)) = checkpoint
        {
            let leaves = interface(step.outgoing);
            self.is_on_loopback = leaves.as_deref() == Some(LOOPBACK);
            self.is_at_end = match hook {
                HookPoint::Input => true,
                HookPoint::Postrouting => !self.is_on_loopback,
                _ => false,
            };
        }
        is_ours
    }
}
