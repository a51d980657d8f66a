//! `sluice explain`: what happens to a packet.

mod names;
mod policies;

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use sluice_diagnose::trace::{self, Request, Source, Trace};
use sluice_plan::explain::{self, Explanation};
use sluice_plane::Live;
use sluice_zone::Resolution;

use self::names::Found;
use self::policies::Judged;
use crate::cli::{ExplainArgs, Output};
use crate::live::Reader;
use crate::output::{exit_code, format, print};
use crate::planes;
use crate::view::View;

/// Most packets to the addresses of one name.
const EXPLAINED: usize = 8;

/// The answer about a packet in JSON.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<Judged>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Live>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
}

/// The answer about a name in JSON.
#[derive(Serialize)]
struct NameAnswer {
    name: Resolution,
    packets: Vec<Answer>,
    /// Why there is no packet to an address, and how many more addresses there are.
    skipped: Vec<String>,
}

/// Prints the explanation, then the kernel's objects and the trace, to stdout and problems of the manifests
/// to stderr. A difference between kernel and plan is an answer, so the exit code is 0. It is 1 when a name leads
/// nowhere.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let host = explain::host_of(&args.to);
    let view = match host {
        Some(_) => View::with_names(&args.node, &args.socket)?,
        None => View::of(&args.node, &args.socket)?,
    };
    let found = match host {
        Some(host) => names::look_up(&view, &args.from, &args.to, &host)?,
        None => None,
    };
    match found {
        Some(found) => of_name(args, &view, found),
        None => {
            let explanation = view.explain(&args.from, &args.to, args.interface.as_deref())?;
            let answer = answer(args, &view, explanation, args.trace)?;
            print(format(args.output, &answer, |_| String::new())?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Explains the packets to all addresses of a name. Only the first one is traced.
fn of_name(args: &ExplainArgs, view: &View, found: Found<'_>) -> anyhow::Result<ExitCode> {
    let is_text = args.output == Output::Text;
    if is_text {
        print(names::text(&found))?;
    }
    let mut packets = Vec::new();
    let mut skipped = Vec::new();
    for (address, protocol) in found.dialled.iter().take(EXPLAINED) {
        let to = format!("{address}/{protocol}");
        match found.client.explain(&to, args.interface.as_deref()) {
            Ok(explanation) => {
                if is_text {
                    print("\n")?;
                }
                let traced = args.trace && packets.is_empty();
                packets.push(answer(args, view, explanation, traced)?);
            }
            Err(error) => skipped.push(format!("{to}: {error}")),
        }
    }
    let more = found.dialled.len().saturating_sub(EXPLAINED);
    if more > 0 {
        skipped.push(format!("{more} more addresses"));
    }
    let answer = NameAnswer {
        name: found.resolution,
        packets,
        skipped,
    };
    print(format(args.output, &answer, |it| {
        it.skipped.iter().map(|it| format!("\n{it}\n")).collect()
    })?)?;
    Ok(exit_code(!answer.packets.is_empty()))
}

/// The whole answer about one packet; as text it is printed on the way.
fn answer(
    args: &ExplainArgs,
    view: &View,
    explanation: Explanation,
    is_traced: bool,
) -> anyhow::Result<Answer> {
    // A person reads the explanation while a packet is waited for.
    let say = |text: String| match args.output {
        Output::Text => print(text),
        Output::Json => Ok(()),
    };
    say(format!("{}\n", explanation.to_string().trim_end()))?;
    let policies = policies::of(view, &args.from, &explanation);
    policies.iter().try_for_each(|it| say(it.to_string()))?;
    let live = || Reader::new(view, &args.socket)?.read(&explanation);
    let live = args.live.then(live).transpose()?;
    live.iter().try_for_each(|it| say(format!("{it}\n")))?;
    let trace = || traced(&request(args, &explanation)?);
    let trace = is_traced.then(trace).transpose()?;
    trace.iter().try_for_each(|it| say(it.to_string()))?;
    Ok(Answer {
        explanation,
        policies,
        live,
        trace,
    })
}

/// Sends or awaits a packet, while programs tell what they do with it.
fn traced(request: &Request) -> anyhow::Result<Trace> {
    let mut witness = planes::witness(request.watched()).context("watch the programs")?;
    let witness = witness.as_deref_mut().map(|it| it as _);
    Ok(trace::trace(request, witness)?)
}

/// The packet of the explanation.
fn request(args: &ExplainArgs, explanation: &Explanation) -> anyhow::Result<Request> {
    let protocol = explanation.protocol.parse();
    Ok(Request {
        protocol: protocol.context("protocol of the explanation")?,
        source: match &*args.from {
            "node" => Source::Node,
            "outside" => Source::Anyone,
            _ => Source::Address(explanation.source),
        },
        destination: explanation.destination,
        wait: args.wait,
    })
}

#[cfg(test)]
mod tests;
