//! `sluice explain`: what happens to a packet.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use sluice_diagnose::trace::{self, Request, Source, Trace};
use sluice_plan::explain::Explanation;
use sluice_plane::{Live, Sighting};

use crate::cli::{ExplainArgs, Output};
use crate::live::Reader;
use crate::planes;
use crate::render::print;
use crate::view::View;

/// Programs tell of packets for as long as a trace may take, beside the time that it waits.
const WATCHED: Duration = Duration::from_secs(10);

/// The answer in JSON.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Live>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    /// What programs of the ebpf mode did with the packet and its answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    programs: Vec<Sighting>,
}

/// Prints the explanation, then the kernel's objects and the trace, to stdout and problems of the manifests
/// to stderr. A difference between kernel and plan is an answer, so the exit code is 0.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let view = View::of(&args.node, &args.socket)?;
    let explanation = view.explain(&args.from, &args.to, args.interface.as_deref())?;
    let is_text = args.output == Output::Text;
    // A person reads the explanation while a packet is waited for.
    if is_text {
        print(format!("{}\n", explanation.to_string().trim_end()))?;
    }
    let live = match args.live {
        true => Some(Reader::new(&view, &args.socket)?.read(&explanation)?),
        false => None,
    };
    if is_text && let Some(live) = &live {
        print(format!("{live}\n"))?;
    }
    let (trace, programs) = match args.trace {
        true => traced(args, &explanation).map(|(trace, programs)| (Some(trace), programs))?,
        false => (None, Vec::new()),
    };
    match (is_text, trace) {
        (true, None) => {}
        (true, Some(trace)) => print(format!("{trace}{}", section(&programs)))?,
        (false, trace) => {
            let answer = Answer {
                explanation,
                live,
                trace,
                programs,
            };
            print(serde_json::to_string_pretty(&answer)? + "\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends or awaits a packet, while programs tell what they do with it.
fn traced(args: &ExplainArgs, explanation: &Explanation) -> anyhow::Result<(Trace, Vec<Sighting>)> {
    let request = request(args, explanation)?;
    let time = args.wait.unwrap_or_default() + WATCHED;
    let is_client_known = request.source != Source::Anyone;
    let mut witnesses = planes::witnesses(explanation, is_client_known, time)
        .context("ask the programs for events")?;
    let trace = trace::trace(&request)?;
    let sightings = witnesses.iter_mut().flat_map(|it| it.seen());
    Ok((trace, sightings.collect()))
}

/// What programs did, below the trace.
fn section(programs: &[Sighting]) -> String {
    match programs {
        [] => String::new(),
        _ => {
            let lines: Vec<String> = programs.iter().map(|it| format!("  {it}\n")).collect();
            format!("\nprograms\n{}", lines.concat())
        }
    }
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
