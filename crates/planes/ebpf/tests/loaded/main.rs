//! The loader with the kernel of this machine, each test in a network namespace of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attached;
mod lifecycle;
mod tables;
mod world;
