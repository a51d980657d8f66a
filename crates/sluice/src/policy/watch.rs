//! `sluice policy watch`: dropped packets as they come.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use sluice_node::client::{self, ClientError};
use sluice_policy_agent::{PolicyDrop, PolicyDrops};
use sluice_policy_plan::Outcome;
use sluice_yaml::shown_json;

use crate::cli::{OutcomeArg, Output, WatchArgs};
use crate::error::say;
use crate::output::print;

/// Between two questions to the agent.
const PERIOD: Duration = Duration::from_millis(200);

/// Prints packets until there were enough.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let mut left = args.count.unwrap_or(usize::MAX);
    let start = if args.recent { 0 } else { u64::MAX };
    let mut seen = ask(args, start)?;
    loop {
        for drop in seen
            .drops
            .iter()
            .filter(|it| is_wanted(args, it))
            .take(left)
        {
            left -= 1;
            print(line(args, drop)?)?;
        }
        if left == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        #[expect(clippy::disallowed_methods, reason = "a period")]
        thread::sleep(PERIOD);
        let mut new = ask(args, seen.last)?;
        if new.last < seen.last {
            // Another agent, which counts from the start.
            new = ask(args, 0)?;
        }
        let lost = new.lost.saturating_sub(seen.lost);
        if lost > 0 {
            say(&format!("{lost} more packets came too fast to be shown"));
        }
        seen = new;
    }
}

fn ask(args: &WatchArgs, after: u64) -> Result<PolicyDrops, ClientError> {
    let query = [("after", &*after.to_string())];
    client::ask(&args.socket, "/policy/drops", &query)
}

fn line(args: &WatchArgs, drop: &PolicyDrop) -> anyhow::Result<String> {
    Ok(match args.output {
        Output::Text => format!("{drop}\n"),
        Output::Json => shown_json(&serde_json::to_string(drop)?).into_owned() + "\n",
    })
}

fn is_wanted(args: &WatchArgs, drop: &PolicyDrop) -> bool {
    let is_outcome = match args.outcome {
        None => true,
        Some(OutcomeArg::Dropped) => drop.outcome == Outcome::Dropped,
        Some(OutcomeArg::Audited) => drop.outcome == Outcome::Audited,
    };
    let pods = || drop.source.pods.iter().chain(&drop.destination.pods);
    let in_namespace = |namespace: &String| {
        let mut namespaces = pods().filter_map(|it| it.split_once('/'));
        namespaces.any(|(it, _)| it == namespace)
    };
    is_outcome
        && args.namespace.as_ref().is_none_or(in_namespace)
        && args
            .pod
            .as_ref()
            .is_none_or(|pod| pods().any(|it| it == pod))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use sluice_policy_agent::End;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: WatchArgs,
    }

    #[test]
    fn filters() {
        let end = |pods: &[&str]| End {
            address: [10, 0, 0, 1].into(),
            pods: pods.iter().map(|it| (*it).to_owned()).collect(),
        };
        let drop = PolicyDrop {
            time: String::new(),
            outcome: Outcome::Audited,
            direction: sluice_policy_plan::Direction::Ingress,
            source: end(&[]),
            destination: end(&["shop/cart"]),
            protocol: None,
            port: None,
            policies: Vec::new(),
            why: String::new(),
        };
        for (flags, expected) in [
            ("", true),
            ("-n shop", true),
            ("-n sho", false),
            ("--pod shop/cart", true),
            ("--pod shop/car", false),
            ("--outcome audited", true),
            ("--outcome dropped", false),
            ("-n shop --outcome dropped", false),
        ] {
            let line = Line::parse_from(["x"].into_iter().chain(flags.split_whitespace()));
            assert_eq!(is_wanted(&line.args, &drop), expected, "{flags}");
        }
    }
}
