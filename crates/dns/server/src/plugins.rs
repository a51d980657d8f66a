//! The plugins, each a struct with a method or a function; [`crate::engine`] has their order.

pub(crate) mod access;
pub(crate) mod autopath;
pub(crate) mod errors;
pub(crate) mod hosts;
pub(crate) mod kubernetes;
pub(crate) mod loadbalance;
pub(crate) mod log;
pub(crate) mod rewrite;
pub(crate) mod small;
pub(crate) mod template;
