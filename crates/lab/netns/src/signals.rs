//! Signals of a process that becomes another program.

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Every signal does here what it does by default, and none is blocked. A program keeps what was ignored before it
/// (`execve(2)`), and a shell ignores SIGINT in what it starts with `&`: Ctrl-C would end nothing.
///
/// # Errors
///
/// The kernel refuses a signal.
pub fn default_signals() -> nix::Result<()> {
    let all = Signal::iterator();
    for it in all.filter(|it| !matches!(it, Signal::SIGKILL | Signal::SIGSTOP)) {
        #[expect(unsafe_code, reason = "the default is no handler of ours")]
        unsafe { signal(it, SigHandler::SigDfl) }?;
    }
    SigSet::empty().thread_set_mask()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_ignores_and_blocks_nothing() {
        let kept = || {
            let mut grep = Command::new("grep");
            grep.args(["-E", "^Sig(Ign|Blk):", "/proc/self/status"]);
            let output = grep.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let masks = text.lines().filter_map(|it| it.split_whitespace().nth(1));
            let masks = masks.map(|it| u64::from_str_radix(it, 16).unwrap());
            // The next two are those of the C library itself.
            masks.map(|it| it & 0x7fff_ffff).collect::<Vec<_>>()
        };
        #[expect(unsafe_code, reason = "to ignore it is no handler of ours")]
        unsafe { signal(Signal::SIGINT, SigHandler::SigIgn) }.unwrap();
        SigSet::all().thread_set_mask().unwrap();
        assert!(kept().iter().all(|it| *it != 0));
        default_signals().unwrap();
        assert_eq!(kept(), [0, 0]);
    }
}
