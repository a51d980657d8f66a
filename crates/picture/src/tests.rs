use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use sluice_model::NamespacedName;
use sluice_plan::Event;
use sluice_plan::Planner;
use sluice_plan::settings::{LocalDetector, Settings};
use sluice_source::{Wants, kinds};

use crate::drawing::Font;
use crate::{Drawing, Kind, Measured, Objects, PodState, Question, Topology, Way};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 100, 100));

/// The Service `web` with one endpoint on each of three nodes; `change` may change the lists.
fn objects(change: impl Fn(Kind, &mut Value)) -> Objects {
    let list = |kind| {
        let (of_list, version, items) = match kind {
            Kind::Node => ("NodeList", "v1", [0, 1, 2].map(node).to_vec()),
            Kind::Pod => ("PodList", "v1", [0, 1, 2].map(pod).to_vec()),
            Kind::Service => ("ServiceList", "v1", vec![service()]),
            Kind::EndpointSlice => ("EndpointSliceList", "discovery.k8s.io/v1", vec![slice()]),
            Kind::ServiceCidr => ("ServiceCIDRList", "networking.k8s.io/v1", Vec::new()),
        };
        let mut list = json!({"apiVersion": version, "kind": of_list, "items": items});
        change(kind, &mut list["items"]);
        Ok::<_, ()>(list)
    };
    Objects::read(list).unwrap()
}

/// The plan of a node with these settings.
fn planner(objects: &Objects, settings: Settings) -> Planner {
    let mut planner = Planner::new(settings);
    let wants = Wants::new(Event::Notice)
        .want_all::<kinds::Service>(Event::Service)
        .want_all::<kinds::EndpointSlice>(Event::EndpointSlice)
        .want_all::<kinds::Node>(Event::Node)
        .want_all::<kinds::ServiceCidr>(Event::ServiceCidr);
    for list in objects.lists() {
        let read = sluice_source::parse("list.json", list.to_string().as_bytes(), &wants);
        read.events.into_iter().for_each(|it| planner.absorb(it));
    }
    planner.absorb(Event::SYNCED);
    planner.replan();
    planner
}

fn letter(at: u8) -> char {
    char::from(b'a' + at)
}

fn node(at: u8) -> Value {
    json!({
        "metadata": {"name": format!("node-{}", letter(at)), "labels": {"topology.kubernetes.io/zone": "east"}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": format!("192.168.100.{}", 10 + at)}],
            "conditions": [{"type": "Ready", "status": if at == 2 { "False" } else { "True" }}],
        },
    })
}

fn pod(at: u8) -> Value {
    json!({
        "metadata": {"name": format!("web-{}", letter(at)), "namespace": "default"},
        "spec": {"nodeName": format!("node-{}", letter(at))},
        "status": {
            "podIPs": [{"ip": format!("10.244.{at}.2")}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "type": "NodePort", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "nodePort": 30080}],
        },
    })
}

fn slice() -> Value {
    let endpoints = [0, 1, 2].map(|at: u8| {
        json!({
            "addresses": [format!("10.244.{at}.2")], "nodeName": format!("node-{}", letter(at)),
            "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": format!("web-{}", letter(at))},
        })
    });
    json!({
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    })
}

fn question(from: &str) -> Question {
    Question {
        service: NamespacedName::new("default", "web"),
        port: None,
        from: from.to_owned(),
        outside: vec![CLIENT],
        via: None,
    }
}

fn way(objects: &Objects, question: &Question) -> Way {
    let settings = Settings {
        local_detector: LocalDetector::ClusterCidrs(vec!["10.244.0.0/16".parse().unwrap()]),
        ..Settings::for_node(question.node(objects).unwrap())
    };
    Way::of(objects, &planner(objects, settings), question).unwrap()
}

/// Pod, whether it is included, whom it sees, reason: of each endpoint.
fn outcome(way: &Way) -> Vec<(&str, bool, Option<&str>, &str)> {
    let all = way.endpoints.iter();
    all.map(|it| {
        (
            it.pod.as_deref().unwrap(),
            it.included,
            it.sees.as_deref(),
            &*it.reason,
        )
    })
    .collect()
}

/// The texts of a picture: base line, begin and end.
fn texts(drawing: &Drawing) -> Vec<(u32, u32, u32)> {
    let texts = drawing.elements.iter().filter(|it| it.tag == "text");
    let texts = texts.map(|it| {
        let of = |name| it.attributes.iter().find(|(known, _)| *known == name);
        let number = |name| of(name).unwrap().1.parse::<u32>().unwrap();
        let font = match of("class").unwrap().1.split(' ').next() {
            Some("name") => Font::Bold,
            Some("mono") => Font::Mono,
            _ if of("class").unwrap().1.ends_with("share") => Font::Bold,
            _ => Font::Small,
        };
        let (x, width) = (number("x"), font.width(&it.text));
        let begin = match of("text-anchor") {
            Some(_) => x.checked_sub(width).unwrap(),
            None => x,
        };
        (number("y"), begin, begin + width)
    });
    texts.collect()
}

/// Every element is inside the picture, no text is on another one, and nothing of it is fetched.
#[track_caller]
fn assert_whole(drawing: &Drawing) {
    let texts = texts(drawing);
    for (at, (y, begin, end)) in texts.iter().enumerate() {
        assert!(*end <= drawing.width, "{:?}", drawing.elements);
        let is_on = |(other, from, to): &&(u32, u32, u32)| other == y && from < end && begin < to;
        let other = texts[at + 1..].iter().find(is_on);
        assert_eq!(other, None, "{begin} to {end} at {y}: {drawing}");
    }
    for it in &drawing.elements {
        let number = |name| {
            let found = it.attributes.iter().find(|(known, _)| *known == name);
            found.map_or(0, |(_, value)| value.parse::<u32>().unwrap())
        };
        assert!(number("x") + number("width") <= drawing.width, "{it:?}");
        assert!(number("y") + number("height") <= drawing.height, "{it:?}");
    }
    let text = drawing.to_string();
    assert!(
        !text
            .replace("http://www.w3.org/2000/svg", "")
            .contains("://"),
        "{text}"
    );
    assert!(!text.contains("url("), "{text}");
    assert!(text.contains("<title") && text.contains("<desc"), "{text}");
}

#[test]
fn the_cluster_has_nodes_pods_and_services() {
    let objects = objects(|kind, items| {
        if kind == Kind::Pod {
            items[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            items[2]["spec"] = json!({});
        }
    });
    let planner = planner(&objects, Settings::for_node(""));
    let topology = Topology::of(&objects, &planner, |_| "nftables".to_owned(), |_| false);
    let nodes: Vec<_> = topology
        .nodes
        .iter()
        .map(|it| (&*it.name, it.ready, it.pods.len()))
        .collect();
    assert_eq!(
        nodes,
        [
            ("node-a", true, 1),
            ("node-b", true, 1),
            ("node-c", false, 0)
        ]
    );
    assert_eq!(topology.nodes[0].pods[0].services, ["default/web"]);
    assert_eq!(topology.nodes[1].pods[0].state, PodState::Terminating);
    assert_eq!(topology.unscheduled[0].name, "web-c");
    assert_eq!(topology.services[0].frontends.len(), 2);
    let text = topology.to_string();
    assert!(
        text.contains("node-c  192.168.100.12  east  nftables  not ready\n"),
        "{text}"
    );
    assert!(
        text.contains("└─ web-b  10.244.1.2  terminating  default/web\n"),
        "{text}"
    );
    for width in [100, 360, 920] {
        assert_whole(&topology.drawing(width));
    }
}

#[test]
fn a_node_port_leads_to_every_endpoint_and_hides_the_client() {
    let objects = objects(|_, _| ());
    let asked = Question {
        via: Some("node-b".to_owned()),
        ..question("client")
    };
    let way = way(&objects, &asked);
    assert_eq!(
        (&*way.dialled, &*way.role),
        ("192.168.100.11:30080/tcp", "NodePort")
    );
    let seen = ["web-a", "web-b", "web-c"].map(|it| (it, true, Some("node-b"), ""));
    assert_eq!(outcome(&way), seen);
    let text = way.to_string();
    assert!(
        text.contains("├─ 33 % ─▶ web-a  10.244.0.2:8080  node-a  sees node-b\n"),
        "{text}"
    );
    assert_whole(&way.drawing(920));
}

#[test]
fn policy_local_leaves_out_other_nodes_and_says_why() {
    let objects = objects(|kind, items| match kind {
        Kind::Service => items[0]["spec"]["externalTrafficPolicy"] = json!("Local"),
        Kind::EndpointSlice => items[0]["endpoints"][2]["conditions"]["ready"] = json!(false),
        _ => {}
    });
    let via = |node: &str| Question {
        via: Some(node.to_owned()),
        ..question("client")
    };
    let elsewhere = "on another node and the policy is Local";
    let expected = [
        ("web-a", true, Some("192.168.100.100"), ""),
        ("web-b", false, None, elsewhere),
        ("web-c", false, None, "not ready"),
    ];
    assert_eq!(outcome(&way(&objects, &via("node-a"))), expected);
    let dropped = way(&objects, &via("node-c"));
    assert!(
        dropped.rules.as_ref().unwrap().reason.starts_with("drop: "),
        "{dropped}"
    );
    assert!(dropped.endpoints.iter().all(|it| !it.included), "{dropped}");
    assert_whole(&dropped.drawing(920));
}

#[test]
fn a_pod_dials_the_cluster_ip_by_the_rules_of_its_node() {
    let objects = objects(|_, _| ());
    let way = way(&objects, &question("web-c"));
    assert_eq!(
        (&*way.dialled, &*way.role),
        ("10.96.0.10:80/tcp", "ClusterIP")
    );
    assert_eq!(way.rules.as_ref().unwrap().node, "node-c");
    let itself = "masqueraded: it would reach itself";
    assert_eq!(outcome(&way)[2], ("web-c", true, Some("node-c"), itself));
    assert_eq!(outcome(&way)[0], ("web-a", true, Some("10.244.2.2"), ""));
}

#[test]
fn a_headless_service_is_a_dns_name() {
    let objects = objects(|kind, items| match kind {
        Kind::Service => {
            items[0]["spec"] =
                json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]});
        }
        Kind::EndpointSlice => {
            items[0]["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
            items[0]["endpoints"][1]["conditions"]["ready"] = json!(false);
        }
        _ => {}
    });
    let way = way(&objects, &question("web-a"));
    assert_eq!(
        (&*way.dialled, &*way.role),
        ("web.default.svc.cluster.local", "DNS")
    );
    assert_eq!((way.rules.is_none(), way.target()), (true, None));
    // Nobody but the client knows.
    assert_eq!(way.endpoints[0].share, None);
    assert_eq!(
        outcome(&way)[1],
        ("web-b", false, None, "not ready: not in DNS")
    );
    assert_whole(&way.drawing(920));
}

#[test]
fn measured_shares_are_those_of_all_requests() {
    let objects = objects(|_, _| ());
    let counts = |all: &[(&str, u64)]| {
        all.iter()
            .map(|(it, count)| ((*it).to_owned(), *count))
            .collect()
    };
    let way = way(&objects, &question("client")).measured(Measured {
        answered: counts(&[("web-a", 60), ("web-b", 15)]),
        seen_from: counts(&[("192.168.100.10", 75)]),
        failed: counts(&[("timed out", 25)]),
    });
    let shares: Vec<Option<f64>> = way.endpoints.iter().map(|it| it.share).collect();
    assert_eq!(shares, [Some(0.6), Some(0.15), Some(0.0)]);
    // Who should have answered and did not is no good endpoint.
    let drawing = way.drawing(920);
    let boxes = drawing.elements.iter().filter(|it| it.tag == "rect");
    let classes = boxes.map(|it| it.attributes[0].1.as_str());
    let endpoints: Vec<&str> = classes.skip_while(|it| *it != "box dial").skip(2).collect();
    assert_eq!(endpoints, ["box used", "box used", "box refused"]);
    let words = way.drawing(920).description;
    assert!(
        words.ends_with("Without an answer: timed out (25)."),
        "{words}"
    );
}

#[test]
fn a_service_whose_endpoints_all_refuse_is_not_green() {
    let objects = objects(|_, _| ());
    let planner = planner(&objects, Settings::for_node("node-a"));
    for (refused, dead) in [(2, false), (3, true)] {
        // The first endpoints refuse, one on each node.
        let refuses = |it: SocketAddr| {
            let mut addresses = (0..refused).map(|it| format!("10.244.{it}.2"));
            addresses.any(|refusing| it.ip().to_string() == refusing)
        };
        let topology = Topology::of(&objects, &planner, |_| String::new(), refuses);
        let service = topology.services.iter().find(|it| it.ready == 3).unwrap();
        assert_eq!(topology.refusing.contains(&service.name), dead);
        let drawing = topology.drawing(920).to_string();
        assert_eq!(drawing.contains("all refuse"), dead, "{drawing}");
        assert_eq!(drawing.contains("and all refuse connections"), dead);
    }
}

#[test]
fn an_endpoint_that_refuses_is_not_green() {
    let objects = objects(|_, _| ());
    let refuses = |it: SocketAddr| it.ip().to_string() == "10.244.0.2";
    let way = way(&objects, &question("client")).refused(refuses);
    let seen = way.endpoints.iter().map(|it| (it.refuses, &*it.reason));
    let fine = (false, "");
    let refused = (true, "nothing listens at its port");
    assert_eq!(seen.collect::<Vec<_>>(), [refused, fine, fine]);
    let drawing = way.drawing(920);
    assert!(
        drawing
            .description
            .contains("web-a on node-a gets 33 %, and refuses it.")
    );
    assert_eq!(drawing.to_string().matches("box refused").count(), 1);
}

#[test]
fn long_names_fit_into_a_phone() {
    let long = "a-name-as-long-as-names-of-kubernetes-may-be-at-the-most-hence-63";
    let objects = objects(|kind, items| match kind {
        Kind::Node => {
            items[0]["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(long);
        }
        Kind::Pod => {
            items[0]["metadata"]["name"] = json!(long);
            items[1]["metadata"]["name"] = json!(long);
            items[1]["status"]["conditions"] = json!([]);
        }
        _ => {}
    });
    let planner = planner(&objects, Settings::for_node("node-a"));
    let topology = Topology::of(&objects, &planner, |_| "nftables".to_owned(), |_| false);
    let way = way(&objects, &question(long));
    for width in [264, 320, 400, 800, 919, 920, 1200] {
        for drawing in [topology.drawing(width), way.drawing(width)] {
            assert!(drawing.width <= width, "{} of {width}", drawing.width);
            assert_whole(&drawing);
        }
    }
}

#[test]
fn a_question_that_names_nothing_is_answered_in_words() {
    let objects = objects(|_, _| ());
    let planner = planner(&objects, Settings::for_node("node-a"));
    let answer = |asked: &Question| {
        let node = asked.node(&objects);
        node.and_then(|_| Way::of(&objects, &planner, asked))
            .unwrap_err()
            .to_string()
    };
    let nobody = Question {
        outside: Vec::new(),
        ..question("nobody")
    };
    assert_eq!(answer(&nobody), "there is no node and no pod nobody");
    let nowhere = Question {
        via: Some("node-z".to_owned()),
        ..question("client")
    };
    assert_eq!(answer(&nowhere), "there is no node node-z");
    let no_port = Question {
        port: Some("443".to_owned()),
        ..question("client")
    };
    let why = "Service default/web has no port 443 that client can dial";
    assert_eq!(answer(&no_port), why);
    let nothing = Question {
        service: NamespacedName::new("default", "none"),
        ..question("client")
    };
    assert_eq!(answer(&nothing), "there is no Service default/none");
}

/// A file that a browser shows as a picture of its own may hold no markup of others.
#[test]
fn names_are_text() {
    let markup = "<script>&\"\u{1}";
    let objects = objects(|kind, items| {
        if kind == Kind::Node {
            items[0]["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(markup);
        }
    });
    let planner = planner(&objects, Settings::for_node(""));
    let drawing = Topology::of(&objects, &planner, |_| markup.to_owned(), |_| false).drawing(920);
    let text = drawing.to_string();
    assert!(text.contains("&lt;script&gt;&amp;&quot;"), "{text}");
    assert!(
        !text.contains("<script") && !text.contains('\u{1}'),
        "{text}"
    );
}
