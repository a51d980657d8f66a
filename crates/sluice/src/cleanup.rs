//! `sluice cleanup`: removes every trace from the kernel.

use std::process::ExitCode;

use sluice_agent::{preflight, takeover};
use sluice_nftables::Nftables;

use crate::render::print;

/// Removes our tables, and kube-proxy's if asked; says which.
pub(crate) fn run(kube_proxy: bool) -> anyhow::Result<ExitCode> {
    preflight::check_capability()?;
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
