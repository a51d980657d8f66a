//! Changes of a cluster as the DNS server takes them in: the cost is that of the change, at any size.

use std::time::{Duration, Instant};

use anyhow::ensure;
use hickory_proto::rr::{Name, RecordType};
use sluice_plan::Event;
use sluice_zone::{
    Event as NameEvent, NamespaceRule, Objects, Outcome, Question, Settings, Zones, answer,
};

use super::changes::Change;
use super::measure::{Samples, count, micros};
use super::synthetic::{self, ENDPOINTS};

/// Numbers of Services.
const SIZES: [u32; 2] = [500, 50_000];

/// Measured changes of each kind.
const CHANGES: u32 = 2_000;

/// Prints the table.
pub(super) fn run() -> anyhow::Result<()> {
    println!(
        "Services x {ENDPOINTS} endpoints. A change until the names have it, and an answer about one of the Services, us:\n"
    );
    println!("| Services | | p50 | p99 |");
    println!("| --- | --- | --- | --- |");
    for services in SIZES {
        let mut objects = loaded(services);
        for change in Change::ALL {
            let mut samples = Samples::default();
            for round in 0..CHANGES {
                let events = change.events(services, round);
                let before = Instant::now();
                events.iter().for_each(|it| absorb(&mut objects, it, round));
                samples.push(before.elapsed());
            }
            row(services, change.name(), &mut samples);
        }
        let mut samples = Samples::default();
        for round in 0..CHANGES {
            samples.push(ask(&objects, round.wrapping_mul(7919) % services)?);
        }
        row(services, "answer", &mut samples);
    }
    println!();
    Ok(())
}

fn row(services: u32, what: &str, samples: &mut Samples) {
    let [p50, p99] = [50, 99].map(|it| micros(samples.percentile(it)));
    println!("| {} | {what} | {p50} | {p99} |", count(services));
}

fn absorb(objects: &mut Objects, event: &Event, now: u32) {
    let event = match event {
        Event::Service(it) => NameEvent::Service(it.clone()),
        Event::EndpointSlice(it) => NameEvent::EndpointSlice(it.clone()),
        Event::Notice(it) => NameEvent::Notice(it.clone()),
        Event::Node(_) | Event::ServiceCidr(_) | Event::LocalAddresses(_) => return,
    };
    objects.absorb(&event, now);
}

fn loaded(services: u32) -> Objects {
    let mut objects = Objects::new(NamespaceRule::DeclaredOrImplied);
    for index in 0..services {
        let slice = synthetic::slice(index, &synthetic::addresses(index, ENDPOINTS));
        absorb(&mut objects, &synthetic::service(index), 0);
        absorb(&mut objects, &slice, 0);
    }
    objects.absorb(&NameEvent::SYNCED, 0);
    objects
}

/// How long the answer about a Service takes.
fn ask(objects: &Objects, index: u32) -> anyhow::Result<Duration> {
    let service = synthetic::service_object(index).name;
    let zones = Zones::new([Name::from_ascii("cluster.local.")?])?;
    let settings = Settings::new(zones);
    let name = Name::from_ascii(format!(
        "{}.{}.svc.cluster.local.",
        service.name, service.namespace
    ))?;
    let question = Question {
        name: &name,
        record_type: RecordType::A,
    };
    let before = Instant::now();
    let answer = answer(objects, &settings, question);
    let took = before.elapsed();
    ensure!(
        matches!(answer.outcome, Outcome::Records { .. }),
        "{service}: {}",
        answer.origin
    );
    Ok(took)
}
