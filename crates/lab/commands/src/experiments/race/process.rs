//! CPU time and memory of an agent.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};
use sluice_cluster::process::stat_fields;

/// CPU time so far of a process and of the programs that it ran and that ended.
pub(super) fn cpu(pid: Pid) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(pid).context("the clock of the agent's CPU time")?;
    let own = clock_gettime(clock).context("read the agent's CPU time")?;
    Ok(Duration::from(own) + children(pid)?)
}

/// User and kernel time of the children: fields 16 and 17 of stat, proc(5).
fn children(pid: Pid) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let field = stat_fields(&stat).context("stat has no name")?;
    let ticks =
        |number| -> anyhow::Result<u64> { Ok(field(number).context("stat is short")?.parse()?) };
    let ticks = ticks(16)? + ticks(17)?;
    let per_second = u64::try_from(sysconf(SysconfVar::CLK_TCK)?.context("no clock tick")?)?;
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

/// The largest resident memory so far, in MiB.
pub(super) fn peak_mib(pid: Pid) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kib = line.and_then(|it| it.split_whitespace().next());
    let kib: f64 = kib
        .with_context(|| format!("no VmHWM in {path}"))?
        .parse()?;
    Ok(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_cpu_and_memory() {
        let own = nix::unistd::getpid();
        let before = cpu(own).unwrap();
        assert!(peak_mib(own).unwrap() > 0.5);
        assert!(cpu(own).unwrap() > before);
    }
}
