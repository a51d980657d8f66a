//! Direct server return with two nodes: the endpoint's node answers the client itself.

mod attack;
mod errors;
mod order;
mod pieces;
mod restart;
mod tcp;
mod udp;
mod world;
