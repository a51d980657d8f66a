//! `sluice explain`: what happens to a packet.

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use sluice_diagnose::trace::{self, Request, Source, Trace};
use sluice_plan::explain::Explanation;

use crate::cli::{ExplainArgs, Output};
use crate::render::print;
use crate::view::View;

/// The answer in JSON.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
}

/// Prints the explanation, then the trace, to stdout and problems of the manifests to stderr.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let view = View::of(&args.node, &args.socket)?;
    let explanation = view.explain(&args.from, &args.to, args.interface.as_deref())?;
    // A person reads the explanation while a packet is waited for.
    if args.output == Output::Text {
        print(format!("{}\n", explanation.to_string().trim_end()))?;
    }
    let trace = match args.trace {
        true => Some(trace::trace(&request(args, &explanation)?)?),
        false => None,
    };
    match (args.output, trace) {
        (Output::Text, None) => {}
        (Output::Text, Some(trace)) => print(trace.to_string())?,
        (Output::Json, trace) => {
            let answer = Answer { explanation, trace };
            print(serde_json::to_string_pretty(&answer)? + "\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
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
