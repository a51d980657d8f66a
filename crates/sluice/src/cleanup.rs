//! `sluice cleanup`: removes all rules from the kernel.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use sluice_agent::takeover;
use sluice_dns_agent::local_dns;
use sluice_node::sysctl::{Changed, Memory, State};
use sluice_node::{Lock, NamespaceLock, preflight};
use sluice_plane::Purpose;
use sluice_policy_nftables::PolicyTables;

use crate::cli::CleanupArgs;
use crate::error;
use crate::output::print;
use crate::planes;

/// Of connections that come to loopback. Without the rules of KUBE-FIREWALL other hosts reach loopback, too.
const ROUTE_LOCALNET: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";

/// Removes our rules of every mode, with `--kube-proxy` also those that kube-proxy left, and prints what
/// it removed and what it leaves. Goes on after an error and prints every error.
pub(crate) fn run(args: &CleanupArgs) -> anyhow::Result<ExitCode> {
    preflight::check_capability()?;
    let stop = "stop the agent first, or it puts the rules back";
    Lock::check(&args.socket).context(stop)?;
    // Held to the end: no agent starts meanwhile.
    let _namespace = NamespaceLock::take().context(stop)?;
    let purpose = if args.kube_proxy {
        Purpose::CleanupKubeProxy
    } else {
        Purpose::Cleanup
    };
    let removal = takeover::clean_up(&planes::leftovers(), purpose);
    removed(&removal.removed)?;
    for what in &removal.left {
        print(format!("left {what}\n"))?;
    }
    removal.notes.iter().for_each(|it| error::say(it));
    let mut errors: Vec<anyhow::Error> = removal.errors.into_iter().map(Into::into).collect();
    match local_dns::clean_up() {
        Ok(names) => removed(&names)?,
        Err(error) => errors.push(error.into()),
    }
    match PolicyTables::connect().and_then(|mut it| it.remove()) {
        Ok(tables) => removed(
            &tables
                .iter()
                .map(|it| format!("table {it}"))
                .collect::<Vec<_>>(),
        )?,
        Err(error) => errors.push(error.into()),
    }
    let memory = Memory::beside(&args.socket);
    let sysctls = if args.restore_sysctls {
        restore(&memory)
    } else {
        name_sysctls(&memory)
    };
    errors.extend(sysctls.err());
    let codes = errors.iter().map(error::report);
    Ok(codes.fold(ExitCode::SUCCESS, |_, it| it))
}

fn removed(all: &[String]) -> anyhow::Result<()> {
    print(
        all.iter()
            .map(|it| format!("removed {it}\n"))
            .collect::<String>(),
    )
}

/// Puts back the sysctls that agents changed, and removes the file in which they kept the old values.
/// Stops at the first error, and keeps the file then.
fn restore(memory: &Memory) -> anyhow::Result<()> {
    let Some(changed) = memory.changed()? else {
        let file = memory.path().display();
        print(format!(
            "left all sysctls: {file}, where an agent keeps the old values, does not exist\n"
        ))?;
        return Ok(());
    };
    for sysctl in &changed {
        match sysctl.state() {
            State::Old => {}
            State::Foreign(now) => {
                let new = sysctl.new;
                print(format!(
                    "left sysctl {sysctl} = {now}: another program set it after the agent's {new}\n"
                ))?;
            }
            State::Ours => {
                sysctl.restore()?;
                let Changed { old, new, .. } = sysctl;
                print(format!(
                    "restored sysctl {sysctl} = {old}, which was {new}\n"
                ))?;
            }
        }
    }
    Ok(memory.forget()?)
}

/// Names the sysctls that have an agent's value.
fn name_sysctls(memory: &Memory) -> anyhow::Result<()> {
    let changed = memory.changed()?.unwrap_or_default();
    let ours = |it: &&Changed| matches!(it.state(), State::Ours);
    for sysctl in changed.iter().filter(ours) {
        let Changed { old, new, .. } = sysctl;
        print(format!(
            "left sysctl {sysctl} = {new}: --restore-sysctls sets it to {old}, the value before Sluice\n"
        ))?;
    }
    let is_known = changed.iter().any(|it| it.path == ROUTE_LOCALNET);
    if !is_known && fs::read_to_string(ROUTE_LOCALNET).is_ok_and(|it| it.trim() == "1") {
        print(
            "left sysctl net.ipv4.conf.all.route_localnet = 1: nothing shows that Sluice set it; the \
             kubelet and kube-proxy do so, too\n",
        )?;
    }
    Ok(())
}
