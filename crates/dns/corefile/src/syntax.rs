//! The grammar of a Corefile, which is that of a Caddyfile of Caddy 1: tokens, imports, blocks.

mod blocks;
mod glob;
mod stream;
mod token;

pub(crate) use blocks::{Directive, RawBlock, parse};
pub(crate) use token::Token;
