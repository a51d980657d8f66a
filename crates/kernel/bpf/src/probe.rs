//! Finds features that the kernel lacks.

use std::fmt;

use aya::maps::MapType;
use aya::programs::tc::TcAttachType;
use aya::programs::{ProgramType, SchedClassifier};
use aya::sys::{is_map_supported, is_program_supported};
use tracing::info;

use crate::pins::netns_cookie;
use crate::{BpfError, Losses};

/// The types of maps that have a handle in this crate, and the kernel version or option that has each.
const MAPS: [(MapType, &str); 5] = [
    (MapType::Hash, "hash maps (CONFIG_BPF_SYSCALL)"),
    (MapType::LruHash, "LRU hash maps (Linux 4.10)"),
    (MapType::LpmTrie, "tries of prefixes (Linux 4.11)"),
    (MapType::PerCpuArray, "arrays by processor (Linux 4.6)"),
    (MapType::RingBuf, "ring buffers (Linux 5.8)"),
];

/// A feature that the kernel lacks. Its text is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The feature, and the kernel version or option that has it.
    pub feature: &'static str,
    /// The substitute, or advice for the operator.
    pub instead: &'static str,
    /// The programs do not work without it.
    pub is_needed: bool,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel lacks {}: {}", self.feature, self.instead)
    }
}

/// The features that programs use and the kernel lacks, with the loss for a user. Attaches nothing.
///
/// # Errors
///
/// [`BpfError::Machine`]: the kernel does not answer, for want of `CAP_BPF` and `CAP_NET_ADMIN` for example.
pub fn probe(losses: &Losses) -> Result<Vec<Lack>, BpfError> {
    let needed = |feature| Lack {
        feature,
        instead: losses.programs,
        is_needed: true,
    };
    let mut lacks = Vec::new();
    for (kind, feature) in MAPS {
        if !is_map_supported(kind).map_err(unanswered)? {
            lacks.push(needed(feature));
        }
    }
    if !is_program_supported(ProgramType::SchedClassifier).map_err(unanswered)? {
        lacks.push(needed("programs for packets (CONFIG_NET)"));
    }
    if netns_cookie().is_err() {
        lacks.push(needed(
            "numbers of network namespaces (SO_NETNS_COOKIE, Linux 5.14)",
        ));
    }
    if SchedClassifier::query_tcx("lo", TcAttachType::Ingress).is_err() {
        lacks.push(Lack {
            feature: "TCX (Linux 6.6)",
            instead: "filters of clsact are used",
            is_needed: false,
        });
    }
    // Whether cgroups are mounted is no matter of the kernel: who wants them looks for `cgroup_root`.
    if !is_program_supported(ProgramType::CgroupSockAddr).map_err(unanswered)? {
        lacks.push(Lack {
            feature: "programs for sockets (CONFIG_CGROUP_BPF)",
            instead: losses.sockets,
            is_needed: false,
        });
    }
    Ok(lacks)
}

/// Logs the features that the kernel lacks; an error if the programs need one.
pub(crate) fn require(losses: &Losses) -> Result<(), BpfError> {
    let (needed, others): (Vec<Lack>, Vec<Lack>) =
        probe(losses)?.into_iter().partition(|it| it.is_needed);
    for lack in others {
        info!("{lack}");
    }
    let lines: Vec<String> = needed.iter().map(Lack::to_string).collect();
    if lines.is_empty() {
        Ok(())
    } else {
        Err(BpfError::Unable(lines.join("\n")))
    }
}

fn unanswered(error: impl std::error::Error + Send + Sync + 'static) -> BpfError {
    BpfError::Machine {
        operation: "ask the kernel for its eBPF features",
        source: error.into(),
    }
}
