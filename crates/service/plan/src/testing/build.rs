//! Objects written in a line of text.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use sluice_model::Change;

use crate::Event;
use crate::Planner;
use crate::lookup::Packet;
use crate::settings::Settings;

fn parse<T: FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} cannot be read"))
}

/// A Service, as `sluice_objects` reads it.
pub fn service(text: &str) -> Event {
    Event::Service(Change::Set(Arc::new(sluice_objects::service(text))))
}

/// The slices of a Service's port, as `sluice_objects` reads them, named after the Service.
pub fn endpoints(port: &str, endpoints: &str) -> Vec<Event> {
    let service = port.split_once(':').map_or(port, |(service, _)| service);
    slices(&format!("{service}-slice"), port, endpoints)
}

/// As [`endpoints`], the slices named after `slice`.
pub fn slices(slice: &str, port: &str, endpoints: &str) -> Vec<Event> {
    let slices = sluice_objects::slices(slice, port, endpoints).into_iter();
    let event = |it| Event::EndpointSlice(Change::Set(Arc::new(it)));
    slices.map(event).collect()
}

/// A Node, as `sluice_objects` reads it.
pub fn node(text: &str) -> Event {
    Event::Node(Change::Set(Arc::new(sluice_objects::node(text))))
}

/// A ServiceCIDR, as `sluice_objects` reads it.
pub fn cidr(text: &str) -> Event {
    Event::ServiceCidr(Change::Set(Arc::new(sluice_objects::cidr(text))))
}

/// A packet: `10.244.0.5 > 10.96.0.10:80/udp via cni0`. Without an interface the node sends it.
///
/// # Panics
///
/// On anything else.
pub fn packet(text: &str) -> Packet {
    let (source, rest) = text.split_once(" > ").expect("a packet has a ` > `");
    let (rest, interface) = match rest.split_once(" via ") {
        Some((rest, interface)) => (rest, Some(interface.into())),
        None => (rest, None),
    };
    let (destination, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    let destination: SocketAddr = parse(destination);
    Packet {
        source: parse(source),
        destination: destination.ip(),
        protocol: parse(protocol),
        port: destination.port(),
        interface,
    }
}

/// A planner that has planned all of this.
pub fn planner(settings: Settings, events: impl IntoIterator<Item = Event>) -> Planner {
    let mut planner = Planner::new(settings);
    for event in events {
        planner.absorb(event);
    }
    let _ = planner.replan();
    planner
}

/// The event that deletes the object of an event.
///
/// # Panics
/// When the event is about no object.
pub fn deletion(event: &Event) -> Event {
    match event {
        Event::Service(it) => Event::Service(Change::Delete(it.name())),
        Event::EndpointSlice(it) => Event::EndpointSlice(Change::Delete(it.name())),
        Event::Node(it) => Event::Node(Change::Delete(it.name())),
        Event::ServiceCidr(it) => Event::ServiceCidr(Change::Delete(it.name())),
        Event::LocalAddresses(_) | Event::Notice(_) => panic!("{event:?} is about no object"),
    }
}
