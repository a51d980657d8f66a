//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod book;
mod cleanup;
mod cli;
mod cluster;
mod common;
mod controller;
mod demo;
mod dns;
mod doctor;
mod hitless;
mod hostile;
mod lab;
mod live;
mod machine;
mod newcomers;
mod node;
mod observe;
mod one_family;
mod policy;
mod process;
mod questions;
mod readme;
mod servers;
mod takeover;
mod top;
mod unknown_pods;
mod web;
