//! `sluice cleanup`: removes all rules from the kernel.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use sluice_node::{Lock, preflight, takeover};
use sluice_plane::Purpose;

use crate::error;
use crate::planes;
use crate::render::print;

/// Removes our rules of every mode, with `kube_proxy` also those that kube-proxy left, and prints
/// what it removed. Goes on after an error and prints every error.
pub(crate) fn run(socket: &Path, kube_proxy: bool) -> anyhow::Result<ExitCode> {
    preflight::check_capability()?;
    Lock::check(socket).context("stop the agent first, or it puts the rules back")?;
    let purpose = match kube_proxy {
        true => Purpose::CleanupKubeProxy,
        false => Purpose::Cleanup,
    };
    let removal = takeover::clean_up(&planes::leftovers(), purpose);
    for what in &removal.removed {
        print(format!("removed {what}\n"))?;
    }
    removal.notes.iter().for_each(|it| error::say(it));
    let errors = removal.errors.into_iter().map(anyhow::Error::new);
    let codes = errors.map(|it| error::report(&it));
    Ok(codes.last().unwrap_or(ExitCode::SUCCESS))
}
