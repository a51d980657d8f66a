//! Connections to the agent's servers.

use std::any::Any;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::hostile::attack::Attack;
use crate::hostile::objects::{load_balancer, port_80};
use crate::hostile::world::{Mode, World};

/// Of the server of the probes.
const HEALTH: u16 = 10256;
/// Health check node ports of ten Services.
const CHECKS: std::ops::Range<u16> = 32000..32010;

pub(crate) fn attacks(_: Mode) -> Vec<Attack> {
    let checks = || {
        CHECKS.enumerate().map(|(number, port)| -> Value {
            let fields = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": port});
            let ip = format!("203.0.113.{}", number + 1);
            load_balancer(number, &port_80(), &[ip], fields)
        })
    };
    vec![
        Attack::new("400 idle connections")
            .begin(|world| hold(world, 400, HEALTH..HEALTH + 1, b"")),
        Attack::new("400 slow requests").begin(|world| {
            hold(
                world,
                400,
                HEALTH..HEALTH + 1,
                b"GET /livez HTTP/1.1\r\nHost: a",
            )
        }),
        Attack::new("400 requests without an end")
            .begin(|world| hold(world, 400, HEALTH..HEALTH + 1, &[b'x'; 8192])),
        Attack::new("connections that come and go")
            .storm(|world, _| drop(connect(world, HEALTH, b"GET"))),
        Attack::new("1,000 connections to ten health check node ports")
            .objects(checks())
            .begin(|world| hold(world, 1000, CHECKS, b""))
            .check(|world| {
                let prober = world.cluster.client("prober").netns();
                for port in CHECKS {
                    let answer = world.get(prober, port, "/");
                    assert!(answer.contains("\"hostile\""), "{answer}");
                }
            }),
    ]
}

/// Opens connections of the attacker and keeps them.
fn hold(world: &World, count: usize, ports: std::ops::Range<u16>, part: &[u8]) -> Box<dyn Any> {
    let ports = ports.cycle().take(count);
    let held: Vec<TcpStream> = ports
        .filter_map(|port| connect(world, port, part))
        .collect();
    Box::new(held)
}

/// A connection of the attacker, with a part of a request; `None` when nobody listens.
fn connect(world: &World, port: u16, part: &[u8]) -> Option<TcpStream> {
    let attacker = world.cluster.client("attacker").netns();
    let to = SocketAddr::from((world.node(), port));
    let mut stream = attacker.run(|| TcpStream::connect(to)).ok()?;
    // Many are closed at once.
    let _ = stream.write_all(part);
    Some(stream)
}
