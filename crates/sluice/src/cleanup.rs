//! `sluice cleanup`: removes every trace from the kernel.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use sluice_agent::{Lock, preflight, takeover};
use sluice_nftables::Nftables;

use crate::render::print;

/// Removes our tables, and kube-proxy's if asked; says which.
pub(crate) fn run(socket: &Path, kube_proxy: bool) -> anyhow::Result<ExitCode> {
    preflight::check_capability()?;
    Lock::check(socket).context("stop the agent first, or it puts the rules back")?;
    let ours = Nftables::open().and_then(|mut it| it.cleanup());
    let theirs = match kube_proxy {
        true => takeover::remove_kube_proxy_tables(),
        false => Ok(Vec::new()),
    };
    // Teardown goes on; the first error is told after everything was tried.
    for table in ours
        .iter()
        .flatten()
        .cloned()
        .chain(theirs.iter().flatten().map(ToString::to_string))
    {
        print(&format!("removed table {table}\n"))?;
    }
    ours?;
    theirs?;
    Ok(ExitCode::SUCCESS)
}
