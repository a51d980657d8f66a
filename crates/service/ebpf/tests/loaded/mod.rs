//! The loader with the kernel of this machine, each test in a network namespace of its own.

mod attached;
mod lifecycle;
mod tables;
pub(crate) mod world;
