//! The lab, tested with real packets. One binary, so that it links once.

mod common;
mod reach;
