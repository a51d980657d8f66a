//! Objects of a made-up cluster, and Corefiles.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use sluice_corefile::{Corefile, Sources};
use sluice_model::Change;
use sluice_zone::Event;

/// A Corefile may refer to nothing.
struct Nothing;

impl Sources for Nothing {
    fn read(&self, _: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// Reads a Corefile; keys without a port get this one.
#[track_caller]
pub fn corefile(text: &str, port: u16) -> Corefile {
    let corefile = sluice_corefile::read("Corefile", text, port, &Nothing);
    corefile.unwrap_or_else(|it| panic!("{it:?}"))
}

/// A Namespace.
pub fn namespace(name: &str) -> Event {
    Event::Namespace(Change::Set(Arc::new(sluice_objects::namespace(name))))
}

/// A Service with these ClusterIPs and port 80; headless without.
pub fn service(namespace: &str, name: &str, ips: &[IpAddr]) -> Event {
    let ips = if ips.is_empty() {
        "headless".to_owned()
    } else {
        words(ips)
    };
    service_of(&format!("{namespace}/{name} {ips} http:80"))
}

/// An ExternalName Service.
pub fn external_name(namespace: &str, name: &str, target: &str) -> Event {
    service_of(&format!(
        "{namespace}/{name} headless ExternalName={target} http:80"
    ))
}

fn service_of(text: &str) -> Event {
    Event::Service(Change::Set(Arc::new(sluice_objects::service(text))))
}

/// The one slice of a Service, with ready endpoints.
pub fn endpoints(namespace: &str, service: &str, addresses: &[IpAddr]) -> Event {
    let name = format!("{namespace}/{service}-a");
    let slice = sluice_objects::slice(&name, service, "http:80", &words(addresses));
    Event::EndpointSlice(Change::Set(Arc::new(slice)))
}

fn words(addresses: &[IpAddr]) -> String {
    let words: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    words.join(" ")
}
