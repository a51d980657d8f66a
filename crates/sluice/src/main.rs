//! A Kubernetes service proxy.
//!
//! ```text
//! cli.rs: command line ─▶ config.rs: valid configuration ─▶ one module per command ─▶ agent, planes
//! ```
//!
//! # Invariants
//!
//! - One definition ([`cli`]) makes parser, help, completions and man page.
//! - A [`config::NodeConfig`] is always valid; all problems of the flags are reported at once.
//! - Exit codes: 0 done, 1 failed, 2 wrong usage. Errors go to stderr in one line.
//! - Only this crate names a data plane.

mod cleanup;
mod cli;
mod cluster;
mod config;
mod config_watch;
#[cfg(feature = "controller")]
mod controller;
mod dns;
mod doctor;
mod error;
mod explain;
mod flags;
#[cfg(feature = "lab")]
mod lab;
mod live;
mod logging;
mod output;
mod pages;
mod planes;
mod planned;
mod policy;
mod proxy;
mod render;
mod resolution;
mod source;
mod status;
#[cfg(feature = "top")]
mod top;
mod view;
mod wanted;

use std::process::ExitCode;

use crate::cli::Command;

fn main() -> ExitCode {
    let command = cli::parse(std::env::args_os());
    run(command).unwrap_or_else(|error| error::report(&error))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Proxy(args) if args.cleanup == Some(true) => cleanup::run(&args.as_cleanup()),
        Command::Proxy(args) => proxy::run(&args, planes::agent, planes::leftovers()),
        Command::Render(args) => render::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Policy(args) => policy::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(&args),
        Command::Cleanup(args) => cleanup::run(&args),
        #[cfg(feature = "controller")]
        Command::Controller(args) => controller::run(&args),
        Command::Dns(args) => dns::run(&args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => sluice_lab_commands::run(&args, lab::HOST),
        Command::Completions(args) => pages::completions(args.shell),
        Command::Man(args) => pages::man(&args),
    }
}
