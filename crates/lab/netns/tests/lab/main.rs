//! Tests of the lab with real packets, in one binary, so that it links once.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod common;
mod lifecycle;
mod load;
mod reach;
mod rules;
