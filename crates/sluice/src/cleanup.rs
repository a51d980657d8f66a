//! `sluice cleanup`: removes every trace from the kernel.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use sluice_model::IpFamily;
use sluice_nftables::Nftables;
use sluice_node::takeover::{self, Ours, Removal};
use sluice_node::{Lock, preflight};

use crate::error;
use crate::render::print;

/// Removes what we wrote in any mode, and if asked what kube-proxy left in any of its modes; says
/// what. Teardown goes on after an error, and every error is told.
pub(crate) fn run(socket: &Path, kube_proxy: bool) -> anyhow::Result<ExitCode> {
    preflight::check_capability()?;
    Lock::check(socket).context("stop the agent first, or it puts the rules back")?;
    let ours = Nftables::open().and_then(|mut it| it.cleanup(&IpFamily::ALL));
    for table in ours.iter().flatten() {
        print(&format!("removed table {table}\n"))?;
    }
    let mut theirs = match kube_proxy {
        true => takeover::remove_kube_proxy(Ours::default()),
        // The iptables and ipvs modes have kube-proxy's names.
        false if takeover::left_own() => takeover::remove_own(),
        false => Removal::default(),
    };
    // Another mode of ours may have removed the rules that mentioned them, and left them.
    takeover::remove_accounts(&mut theirs);
    for what in &theirs.removed {
        print(&format!("removed {what}\n"))?;
    }
    theirs.notes.iter().for_each(|it| error::say(it));
    let ours = ours.err().map(anyhow::Error::new);
    let errors = theirs.errors.into_iter().map(anyhow::Error::new);
    let failed = ours.into_iter().chain(errors);
    let codes = failed.map(|it| error::report(&it));
    Ok(codes.last().unwrap_or(ExitCode::SUCCESS))
}
