//! How much one Service may have, and what happens to the others meanwhile.

use std::net::Ipv4Addr;

use super::*;
use crate::issue::SHOWN;
use crate::settings::Costs;

fn addresses(first: u32, count: u32) -> Vec<String> {
    let all = first..first + count;
    all.map(|it| Ipv4Addr::from(it).to_string()).collect()
}

fn ports(count: u16) -> String {
    let all: Vec<String> = (1..=count).map(|it| format!("p{it}:{it}")).collect();
    all.join(" ")
}

fn frontends(planner: &Planner) -> usize {
    let ports = planner.plan().ports.values();
    ports.map(|it| it.frontends.len()).sum()
}

fn issues(planner: &Planner) -> Vec<String> {
    planner.issues().map(|it| it.to_string()).collect()
}

#[test]
fn frontends_are_served_up_to_the_limit() {
    let ips = addresses(0xC633_0000, 1_000).join(",");
    let web = service(&format!("web 10.96.0.1 {} ext={ips}", ports(100)));
    let planner = planner(here(), [node("node-a"), web]);
    assert_eq!(frontends(&planner), 50_000);
    let mut last = planner.plan().ports.values();
    let last = last
        .find(|it| &*it.key.name.port == "p50")
        .expect("it is served");
    assert_eq!(last.frontends.len(), 951, "the last port has what is left");
    assert_eq!(
        issues(&planner),
        [
            "Service default/web: 100100 frontends (ports times addresses) of IPv4 are more than \
             one Service may have (50000): its ports are served in their order up to that"
        ]
    );
}

/// `about`: a Service whose port has 1,000 endpoints. `expected`: how many objects it asks for if it is
/// too many, and how many frontends are served.
#[track_caller]
fn check(costs: Costs, about: &str, asked: Option<usize>, served: usize) {
    let members: Vec<String> = addresses(0x0AF4_0000, 1_000);
    let members: Vec<String> = members.iter().map(|it| format!("{it}:80")).collect();
    let mut events = endpoints("web", &members.join(" "));
    events.extend([node("node-a"), service(about)]);
    let planner = planner(Settings { costs, ..here() }, events);
    assert_eq!(frontends(&planner), served);
    let issue = asked.map(|asked| {
        format!(
            "Service default/web: {asked} objects (endpoints and source ranges, each once per \
             frontend) of IPv4 are more than one Service may have (300000): its ports are served \
             in their order up to that"
        )
    });
    assert_eq!(issues(&planner), issue.into_iter().collect::<Vec<_>>());
}

#[test]
fn endpoints_count_once_for_each_frontend() {
    let web = |ips| {
        let ips = addresses(0xC633_0000, ips).join(",");
        format!("web 10.96.0.1 :80 ext={ips}")
    };
    check(Costs::default(), &web(298), None, 299);
    check(Costs::default(), &web(299), Some(300_300), 299);
    check(Costs::default(), &web(2_000), Some(2_003_001), 299);
}

#[test]
fn what_the_data_plane_writes_besides_counts() {
    let costs = Costs {
        source_range: 1,
        affinity: 2,
    };
    let ips = addresses(0xC633_0000, 200).join(",");
    let sticky = format!("web 10.96.0.1 :80 ext={ips} affinity=10");
    check(costs, &sticky, None, 201);
    // Nobody is served by a part of the endpoints.
    let dear = Costs {
        affinity: 300,
        ..costs
    };
    check(dear, &sticky, Some(300_201), 0);
    let ranges: Vec<String> = addresses(0x0A00_0000, 1_000);
    let ranges: Vec<String> = ranges.iter().map(|it| format!("{it}/32")).collect();
    let ranged = format!(
        "web LoadBalancer 10.96.0.1 :80 lb={ips} ranges={}",
        ranges.join(",")
    );
    check(Costs::default(), &ranged, None, 201);
    check(
        Costs {
            source_range: 3,
            ..costs
        },
        &ranged,
        Some(1_001 + 200 * 4_001),
        75,
    );
}

#[test]
fn issues_of_one_kind_are_bounded() {
    let ips = addresses(0xC000_0200, 1_000).join(",");
    let web = |name: &str, ip: u8| service(&format!("{name} 10.96.0.{ip} :80 ext={ips}"));
    let mut planner = planner(here(), [node("node-a"), web("a", 1), web("b", 2)]);
    let all = issues(&planner);
    assert_eq!(all.len(), SHOWN + 1);
    assert_eq!(
        all[SHOWN],
        "Service default/b: FrontendTaken: and 990 more of this kind"
    );
    assert_eq!(planner.issues().map(|it| it.count).sum::<usize>(), 1_000);
    // Somebody else's change tells nothing about them.
    planner.absorb(service("c 10.96.0.3 :80"));
    assert!(planner.replan().issues.is_empty());
    planner.absorb(service("a 10.96.0.1 :80"));
    let changes = planner.replan();
    let (_, change) = changes.issues.first_key_value().expect("they are solved");
    assert_eq!((change.old.len(), change.new.len()), (SHOWN + 1, 0));
}

#[test]
fn the_others_come_before_a_large_service_and_between_its_parts() {
    let huge = service(&format!("huge 10.96.0.1 {}", ports(1_000)));
    let victim = |port: u16| endpoints("victim", &format!("10.0.0.1:{port}"));
    let mut planner = planner(here(), [node("node-a"), service("victim 10.96.0.2 :80")]);
    planner.absorb(huge);
    let mut parts = 0;
    while planner.is_dirty() {
        parts += 1;
        victim(parts).into_iter().for_each(|it| planner.absorb(it));
        let changes = planner.replan_part(100);
        let names = changes.ports.keys().map(|it| &*it.name.service.name);
        assert!(names.clone().any(|it| it == "victim"), "part {parts}");
        let count = names.filter(|it| *it == "huge").count();
        assert!((1..=100).contains(&count), "part {parts}: {count}");
    }
    assert!(parts >= 10, "{parts}");
    assert_eq!(frontends(&planner), 1_001);
}

#[test]
fn a_frontend_leaves_its_former_owner_first() {
    let huge = |ext: &str| service(&format!("huge created=1 10.96.0.1 {} {ext}", ports(1_000)));
    let small = || service("small created=2 10.96.0.2 p:500 ext=192.0.2.1");
    let mut planner = planner(here(), [node("node-a"), huge("ext=192.0.2.1"), small()]);
    planner.absorb(huge(""));
    let changes = planner.replan_part(10);
    let has = |planner: &Planner, name: &str| {
        let mut ports = planner.plan().ports.values();
        ports.any(|it| {
            let mut frontends = it.frontends.iter();
            &*it.key.name.service.name == name
                && frontends.any(|it| it.frontend.to_string() == "192.0.2.1:500/tcp")
        })
    };
    assert!(planner.is_dirty(), "most of the large Service is to come");
    assert!(!has(&planner, "huge") && has(&planner, "small"));
    assert!(changes.ports.keys().any(|it| &*it.name.port == "p500"));
    // The same when nobody had it in between.
    let _ = planner.replan();
    planner.absorb(huge("ext=192.0.2.1"));
    let _ = planner.replan();
    assert!(has(&planner, "huge") && !has(&planner, "small"));
    planner.absorb(service("small created=2 10.96.0.2 p:500"));
    let _ = planner.replan();
    planner.absorb(huge(""));
    let _ = planner.replan_part(10);
    assert!(has(&planner, "huge"), "it is not planned yet");
    planner.absorb(small());
    let _ = planner.replan_part(10);
    assert!(planner.is_dirty());
    assert!(!has(&planner, "huge") && has(&planner, "small"));
}
