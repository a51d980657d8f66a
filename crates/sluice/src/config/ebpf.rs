//! The flags of the ebpf mode, checked.

use ipnet::IpNet;
use sluice_config::Mode;
use sluice_plan::settings::DirectReturn;
use sluice_plane::{EbpfOptions, FLOWS, Sockets};
use sluice_yaml::quoted;

use super::reading::Problems;
use crate::cli::{DsrArg, EbpfArgs, EndedArg, SocketsArg};

#[cfg(test)]
mod tests;

/// Longest name of an interface (`IFNAMSIZ` without the zero at the end), and a `!` before it.
const LONGEST_PATTERN: usize = 16;

impl EbpfArgs {
    /// The options; every problem is said.
    pub(super) fn check(&self, problems: &mut Problems) -> EbpfOptions {
        let default = EbpfOptions::default();
        EbpfOptions {
            interfaces: self.interfaces(problems),
            sockets: match self.ebpf_sockets {
                Some(SocketsArg::All) => Sockets::All,
                Some(SocketsArg::Tcp) => Sockets::Tcp,
                Some(SocketsArg::Off) => Sockets::Off,
                None => default.sockets,
            },
            ended_sockets: match self.ebpf_end_sockets {
                Some(EndedArg::All) => Sockets::All,
                Some(EndedArg::Udp) => Sockets::Udp,
                Some(EndedArg::Off) => Sockets::Off,
                None => default.ended_sockets,
            },
            cgroup: self.ebpf_cgroup.clone(),
            tunnel_port: self.tunnel_port(problems).unwrap_or(default.tunnel_port),
            flows: self.flows(problems).or(default.flows),
            maglev_size: self.maglev_size(problems).unwrap_or(default.maglev_size),
        }
    }

    /// The Services with direct server return.
    pub(super) fn direct_return(&self) -> DirectReturn {
        match self.ebpf_dsr {
            None | Some(DsrArg::Off) => DirectReturn::Off,
            Some(DsrArg::Annotated) => DirectReturn::Annotated,
            Some(DsrArg::All) => DirectReturn::All,
        }
    }

    /// The clients without direct server return.
    pub(super) fn not_direct(&self, problems: &mut Problems) -> Vec<IpNet> {
        let words = self.ebpf_dsr_exclude.as_deref();
        problems
            .prefixes("--ebpf-dsr-exclude", words)
            .unwrap_or_default()
    }

    /// The warning about flags in a mode in which they have no effect.
    pub(super) fn idle(&self, mode: Mode) -> Vec<String> {
        let given = self.given();
        if mode == Mode::Ebpf || given.is_empty() {
            return Vec::new();
        }
        let given = given.join(", ");
        vec![format!(
            "without effect in the {} mode: {given}",
            mode.name()
        )]
    }

    fn interfaces(&self, problems: &mut Problems) -> Vec<String> {
        let words = self.ebpf_interfaces.iter().flatten();
        let words: Vec<String> = words.map(|it| it.trim().to_owned()).collect();
        let is_pattern = |it: &str| {
            let name = it.strip_prefix('!').unwrap_or(it);
            !name.is_empty()
                && it.len() <= LONGEST_PATTERN
                && !name.contains(|it: char| it == '/' || it == ':' || it.is_whitespace())
        };
        for word in words.iter().filter(|it| !is_pattern(it)) {
            problems.usage(format!(
                "--ebpf-interfaces: {} is no pattern of names such as eth* or !docker*",
                quoted(word)
            ));
        }
        words
    }

    fn tunnel_port(&self, problems: &mut Problems) -> Option<u16> {
        let text = self.ebpf_dsr_port.as_deref();
        problems.parse("--ebpf-dsr-port", text, |it| *it != 0, "is no port")
    }

    fn flows(&self, problems: &mut Problems) -> Option<u32> {
        let wrong = format!("is not between {} and {}", FLOWS.start(), FLOWS.end());
        let text = self.ebpf_flows.as_deref();
        problems.parse("--ebpf-flows", text, |it| FLOWS.contains(it), &wrong)
    }

    fn maglev_size(&self, problems: &mut Problems) -> Option<u32> {
        let sizes = sluice_plane::MAGLEV_SIZES;
        let wrong = format!(
            "is not one of {}",
            sizes.map(|it| it.to_string()).join(", ")
        );
        let text = self.ebpf_maglev_size.as_deref();
        problems.parse("--ebpf-maglev-size", text, |it| sizes.contains(it), &wrong)
    }
}
