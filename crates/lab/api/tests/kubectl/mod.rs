//! The server as the real kubectl sees it: that of Debian 12 (1.20), and the one on PATH.

mod apply;
mod cluster;
mod read;
mod write;
