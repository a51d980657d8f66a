//! `sluice explain`: what happens to a packet.

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use sluice_diagnose::trace::{self, Request, Source, Trace};
use sluice_plan::explain::Explanation;
use sluice_plane::Live;

use crate::cli::{ExplainArgs, Output};
use crate::live::Reader;
use crate::planes;
use crate::render::print;
use crate::view::View;

/// The answer in JSON.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Live>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
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
    let trace = match args.trace {
        true => Some(traced(&request(args, &explanation)?)?),
        false => None,
    };
    match (is_text, trace) {
        (true, None) => {}
        (true, Some(trace)) => print(trace.to_string())?,
        (false, trace) => {
            let answer = Answer {
                explanation,
                live,
                trace,
            };
            print(serde_json::to_string_pretty(&answer)? + "\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
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
