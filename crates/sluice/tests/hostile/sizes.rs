//! Objects that are large.

use serde_json::{Value, json};

use crate::hostile::attack::Attack;
use crate::hostile::objects::{
    endpoints, ip, ips, load_balancer, port_80, ports, ranges, served, service, slice,
};
use crate::hostile::world::Mode;

/// The largest object that an API server takes, in bytes.
const LARGEST: usize = 1_500_000;

/// In the iptables mode, too, what is large comes in several parts: of 4,096 rules, or of one port that has more.
pub(crate) fn attacks(mode: Mode) -> Vec<Attack> {
    let mut all = vec![many_endpoints(mode)];
    all.extend(source_ranges(mode));
    all.extend(affinity(mode));
    all.extend(ports_and_addresses(mode));
    all.extend((mode == Mode::Nftables).then(frontends));
    all.extend(slices(mode));
    all
}

fn client_ip(seconds: usize) -> Value {
    json!({
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}},
    })
}

/// The first: rules of large clusters have no comments, and keep none.
fn many_endpoints(mode: Mode) -> Attack {
    let count = mode.pick(5000, 1500);
    Attack::new("thousands of endpoints")
        .objects(served(
            service("large", 1, &port_80(), json!({})),
            &endpoints(count),
        ))
        .largest(4 * 1500 * 2)
        .enlarges()
}

fn source_ranges(mode: Mode) -> Vec<Attack> {
    let balanced = |ports_count, ranges: Vec<String>| {
        let fields = json!({"loadBalancerSourceRanges": ranges});
        let ips = [ip([203, 0, 113, 1], 0)];
        served(
            load_balancer(1, &ports(ports_count), &ips, fields),
            &endpoints(1),
        )
    };
    let halves = [
        "0.0.0.0/1",
        "128.0.0.0/1",
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.0.0.0/9",
    ];
    let single = |it| format!("{}/32", ip([11, 0, 0, 0], it));
    vec![
        Attack::new("50 ports with 800 source ranges")
            .objects(balanced(mode.pick(50, 20), ranges(800)))
            .twice(),
        Attack::new("200 ports with 400 source ranges")
            .objects(balanced(mode.pick(200, 60), ranges(400))),
        Attack::new("100 ports with 1,000 source ranges")
            .objects(balanced(mode.pick(100, 10), ranges(1000))),
        Attack::new("source ranges that overlap and cover everything")
            .objects(balanced(20, halves.map(str::to_owned).into())),
        Attack::new("single addresses by the thousand").objects(balanced(
            2,
            (0..mode.pick(8000, 1500)).map(single).collect(),
        )),
        Attack::new("a list of source ranges of its own for each Service").objects(
            (0..mode.pick(100, 30)).flat_map(|number| {
                let fields = json!({"loadBalancerSourceRanges": ranges(20 + number)});
                let ips = [ip([203, 0, 113, 1], number)];
                served(
                    load_balancer(number, &port_80(), &ips, fields),
                    &endpoints(1),
                )
            }),
        ),
    ]
}

fn affinity(mode: Mode) -> Vec<Attack> {
    let sticky = |ports_count, count| {
        let service = service("sticky", 1, &ports(ports_count), client_ip(10_800));
        served(service, &endpoints(count))
    };
    vec![
        Attack::new("session affinity, 20 ports of 150 endpoints")
            .objects(sticky(mode.pick(20, 10), 150))
            .twice(),
        Attack::new("session affinity, 10 ports of 900 endpoints")
            .objects(sticky(mode.pick(10, 4), 900)),
        Attack::new("session affinity with a timeout of its own for each Service").objects(
            (0..mode.pick(200, 40)).flat_map(|number| {
                let name = format!("sticky-{number}");
                let service = service(&name, number, &port_80(), client_ip(100 + number));
                served(service, &endpoints(3))
            }),
        ),
    ]
}

fn ports_and_addresses(mode: Mode) -> Vec<Attack> {
    let many = ports(mode.pick(20_000, 2000));
    let no_endpoints = (0..10).map(|it| slice("ports", it, &many, &[]));
    let of_ports = [service("ports", 1, &many.clone(), json!({}))];
    let external = |number, count| {
        let fields = json!({"externalIPs": ips([192, 0, 0, 0], count)});
        service(&format!("addresses-{number}"), number, &port_80(), fields)
    };
    let duplicates = mode.pick(60_000, 8000);
    let addresses = mode.pick(80_000, 8000);
    let largest = 4 * addresses.max(duplicates);
    let all_protocols: Value = ["TCP", "UDP", "SCTP"]
        .iter()
        .flat_map(|protocol| {
            (1..=100).map(move |port| {
                let name = format!("{}-{port}", protocol.to_lowercase());
                json!({"name": name, "protocol": protocol, "port": port, "targetPort": 1})
            })
        })
        .collect();
    vec![
        Attack::new("20,000 ports and slices without endpoints")
            .objects(of_ports.into_iter().chain(no_endpoints)),
        Attack::new("80,000 external IPs")
            .objects(served(external(1, addresses), &endpoints(1)))
            .largest(largest),
        Attack::new("1,000 external IPs, each with 99 endpoints")
            .objects(served(external(1, mode.pick(1000, 200)), &endpoints(99)))
            .largest(largest)
            .twice(),
        Attack::new("five Services with the same external IPs")
            .objects((0..5).map(|it| external(it, duplicates)))
            .largest(largest)
            .said("FrontendTaken: and"),
        Attack::new("every port of an address")
            .objects(served(
                service("every", 1, &ports(65_535), json!({})),
                &endpoints(0),
            ))
            .said("65535 ports, the limit is 20000"),
        Attack::new("every protocol").objects(served(
            service("protocols", 1, &all_protocols, json!({})),
            &endpoints(2),
        )),
        Attack::new("1,000 Services at once")
            .objects((0..mode.pick(1000, 200)).flat_map(|number| {
                let service = service(&format!("one-{number}"), number, &port_80(), json!({}));
                served(service, &[ip([10, 245, 0, 1], number)])
            }))
            .twice(),
    ]
}

/// Without endpoints, but with three rules for each frontend in the iptables mode.
fn frontends() -> Attack {
    let fields = json!({"externalIPs": ips([192, 0, 0, 0], 60_000)});
    Attack::new("more frontends than one Service may have")
        .objects([service("frontends", 1, &ports(1000), fields)])
        .largest(2 * 50_000)
        .said("more than one Service may have")
}

fn slices(mode: Mode) -> Vec<Attack> {
    let count = mode.pick(3000, 300);
    let hinted = |number: usize, mut slice: Value| {
        for (position, it) in slice["endpoints"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let zone = format!("zone-{}", number * 1000 + position);
            it["hints"] = json!({"forZones": [{"name": zone}]});
        }
        slice
    };
    let terminating = |mut slice: Value| {
        for it in slice["endpoints"].as_array_mut().into_iter().flatten() {
            it["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
        }
        slice
    };
    let plain = service("slices", 1, &port_80(), json!({}));
    let chunks = endpoints(count);
    let all = || {
        let chunks = chunks.chunks(1000).enumerate();
        chunks.map(|(number, it)| slice("slices", number, &port_80(), it))
    };
    let wide: Vec<Value> = (0..5)
        .map(|it| slice("slices", it, &ports(3000), &endpoints(2)))
        .collect();
    let same = vec![ip([10, 245, 0, 1], 0); 1000];
    let fat = json!({"filler": "x".repeat(LARGEST - 1000)});
    let mut annotated = plain.clone();
    annotated["metadata"]["annotations"] = fat;
    let first = |objects: Vec<Value>| [plain.clone()].into_iter().chain(objects);
    vec![
        Attack::new("endpoints that terminate, by the thousand")
            .objects(first(all().map(terminating).collect()))
            .largest(16 * count),
        Attack::new("hints for thousands of zones")
            .objects(first(
                all()
                    .enumerate()
                    .map(|(it, slice)| hinted(it, slice))
                    .collect(),
            ))
            .largest(16 * count),
        Attack::new("slices with thousands of ports").objects(first(wide)),
        Attack::new("slices without their Service")
            .objects(all())
            .said("no file has a Service hostile/slices"),
        Attack::new("an endpoint a thousand times").objects(first(
            (0..5)
                .map(|it| slice("slices", it, &port_80(), &same))
                .collect(),
        )),
        Attack::new("an annotation of 1.5 MB").objects([annotated]),
    ]
}
