//! What plugins do with questions, without sockets but where an upstream is asked.
#[cfg(test)]
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{
    Client, Served, addresses, cluster, corefile, eventually, name, objects, query,
};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use sluice_dns::{Options, Responder, SearchPaths, Transport};

const CLIENT: &str = "10.1.0.1:40000";

/// Asks one server block.
fn ask_message(block: &str, asked: &Message) -> Option<Message> {
    let text = format!(". {{\n bind 127.0.0.1\n {block}\n}}");
    let mut events = crate::support::events();
    events.push(cluster::external_name(
        "default",
        "outside",
        "www.example.org",
    ));
    let responder = Responder::new(&corefile(&text), objects(&events), Options::default()).unwrap();
    let client: SocketAddr = CLIENT.parse().unwrap();
    let answer = responder.respond(&asked.to_vec().unwrap(), client, Transport::Udp)?;
    Some(Message::from_vec(&answer).unwrap())
}

#[track_caller]
fn ask(block: &str, asked: &str, record_type: RecordType) -> Message {
    ask_message(block, &query(asked, record_type)).expect("an answer")
}

/// Answers as text: `name ttl type data`.
fn lines(records: &[Record]) -> Vec<String> {
    let line = |it: &Record| format!("{} {} {} {}", it.name, it.ttl, it.record_type(), it.data);
    records.iter().map(line).collect()
}

#[track_caller]
fn check(block: &str, asked: &str, record_type: RecordType, expected: &[&str]) {
    let answer = ask(block, asked, record_type);
    assert_eq!(lines(&answer.answers), expected, "{answer}");
    assert_eq!(answer.response_code, ResponseCode::NoError);
    assert_eq!(answer.queries[0].name.to_ascii(), asked);
}

const HOSTS: &str = "hosts {
    10.0.0.1 a.example b.example
    10.0.0.2 a.example
    2001:db8::1 a.example
    ttl 60
    no_reverse_is_not_set
}";

fn hosts() -> String {
    HOSTS.replace("    no_reverse_is_not_set\n", "")
}

#[test]
fn hosts_answers_names_and_addresses() {
    let a = ["A.example. 60 A 10.0.0.1", "A.example. 60 A 10.0.0.2"];
    check(&hosts(), "A.example.", RecordType::A, &a);
    check(
        &hosts(),
        "a.example.",
        RecordType::AAAA,
        &["a.example. 60 AAAA 2001:db8::1"],
    );
    check(&hosts(), "a.example.", RecordType::MX, &[]);
    let names = [
        "1.0.0.10.in-addr.arpa. 60 PTR a.example.",
        "1.0.0.10.in-addr.arpa. 60 PTR b.example.",
    ];
    check(&hosts(), "1.0.0.10.in-addr.arpa.", RecordType::PTR, &names);
    let unknown = ask(&hosts(), "c.example.", RecordType::A);
    assert_eq!(unknown.response_code, ResponseCode::ServFail);
    let passed = format!("{}\nwhoami", hosts().replace("ttl 60", "fallthrough"));
    assert_eq!(
        ask(&passed, "c.example.", RecordType::A).additionals.len(),
        2
    );
}

#[test]
fn a_hosts_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    std::fs::write(&file, "10.0.0.1 a.example # one\nnonsense\n10.0.0.9\n").unwrap();
    let path = file.display();
    let text = format!(". {{\n bind 127.0.0.1\n hosts {path} {{\n reload 20ms\n }}\n}}");
    let served = Served::new(&text);
    assert_eq!(
        addresses(&served.ask("a.example.", RecordType::A)),
        [[10, 0, 0, 1]]
    );
    std::fs::write(&file, "10.0.0.2 a.example\n10.0.0.3 a.example\n").unwrap();
    eventually("the new entries are answered", || {
        addresses(&served.ask("a.example.", RecordType::A)).len() == 2
    });
    std::fs::remove_file(&file).unwrap();
    assert_eq!(addresses(&served.ask("a.example.", RecordType::A)).len(), 2);
}

const KUBERNETES: &str = "kubernetes cluster.local {\n ttl 30\n }";

#[test]
fn rewritten_names_come_back() {
    let block = |rule: &str| format!("rewrite {rule}\n{KUBERNETES}");
    let one = |owner: &str| format!("{owner} 30 A 10.96.0.1");
    let exact = block("name web.example one.default.svc.cluster.local");
    check(
        &exact,
        "web.example.",
        RecordType::A,
        &[&one("web.example.")],
    );
    let suffix = block("name suffix .example .default.svc.cluster.local answer auto");
    check(
        &suffix,
        "one.example.",
        RecordType::A,
        &[&one("one.example.")],
    );
    let regex = block(
        "name regex (.*)\\.in\\.(.*)\\.example {1}.{2}.svc.cluster.local answer name \
         (.*)\\.(.*)\\.svc\\.cluster\\.local {1}.in.{2}.example",
    );
    check(
        &regex,
        "one.in.default.example.",
        RecordType::A,
        &[&one("one.in.default.example.")],
    );
    let plain = block("name regex (.*)\\.example {1}.default.svc.cluster.local");
    check(
        &plain,
        "one.example.",
        RecordType::A,
        &[&one("one.default.svc.cluster.local.")],
    );
}

#[test]
fn types_ttls_and_codes_are_rewritten() {
    let asked = "one.default.svc.cluster.local.";
    let block = |rules: &str| format!("{rules}\n{KUBERNETES}");
    let kind = block("rewrite type AAAA A");
    let answer = ask(&kind, asked, RecordType::AAAA);
    assert_eq!(answer.queries[0].query_type, RecordType::AAAA);
    assert_eq!(lines(&answer.answers), [format!("{asked} 30 A 10.96.0.1")]);
    let ttl = block("rewrite ttl suffix .local 7");
    check(
        &ttl,
        asked,
        RecordType::A,
        &[&format!("{asked} 7 A 10.96.0.1")],
    );
    let stops = block("rewrite ttl suffix .local 7\nrewrite ttl suffix .local 9");
    check(
        &stops,
        asked,
        RecordType::A,
        &[&format!("{asked} 7 A 10.96.0.1")],
    );
}

#[test]
fn templates_answer() {
    let block = "template IN A example {
        match ^ip-(?P<a>[0-9]+)-(?P<b>[0-9]+)[.]example[.]$
        answer \"{{ .Name }} 60 IN A 10.0.{{ .Group.a }}.{{ .Group.b }}\"
        fallthrough
    }
    template IN AAAA example {
        authority \"{{ .Zone }} 60 IN SOA ns.example. host.example. 1 60 60 60 60\"
    }
    template ANY ANY invalid {
        rcode NXDOMAIN
    }
    whoami";
    check(
        block,
        "ip-1-2.example.",
        RecordType::A,
        &["ip-1-2.example. 60 A 10.0.1.2"],
    );
    let passed = ask(block, "other.example.", RecordType::A);
    assert_eq!(passed.additionals.len(), 2);
    let nodata = ask(block, "other.example.", RecordType::AAAA);
    assert_eq!(nodata.authorities.len(), 1);
    let invalid = ask(block, "a.invalid.", RecordType::TXT);
    assert_eq!(invalid.response_code, ResponseCode::NXDomain);
    assert!(invalid.authoritative);
    let broken = "template IN A {\n answer \"{{ .Name }} 60 IN A no-address\"\n }";
    assert_eq!(
        ask(broken, "a.", RecordType::A).response_code,
        ResponseCode::ServFail
    );
}

#[test]
fn an_alias_brings_the_records_of_its_target() {
    let asked = "outside.default.svc.cluster.local.";
    let alias = format!("{asked} 30 CNAME www.example.org.");
    let block = format!("hosts {{\n 192.0.2.1 www.example.org\n fallthrough\n }}\n{KUBERNETES}");
    let address = "www.example.org. 3600 A 192.0.2.1";
    check(&block, asked, RecordType::A, &[&alias, address]);
    check(&block, asked, RecordType::AAAA, &[&alias]);
    check(&block, asked, RecordType::CNAME, &[&alias]);
    // Nobody can be asked about the target.
    check(KUBERNETES, asked, RecordType::A, &[&alias]);
    // Whoever was asked has failed: a client may ask again.
    let fails = format!("{KUBERNETES}\nhosts example.org {{\n 192.0.2.1 other.example.org\n }}");
    let failed = ask(&fails, asked, RecordType::A);
    assert_eq!(
        (failed.response_code, failed.answers.len()),
        (ResponseCode::ServFail, 0)
    );
}

#[test]
fn any_chaos_acl_minimal_and_nsid() {
    let asked = "one.default.svc.cluster.local.";
    let any = ask(&format!("any\n{KUBERNETES}"), asked, RecordType::ANY);
    assert_eq!(any.answers[0].record_type(), RecordType::HINFO);
    let mut version = query("version.bind.", RecordType::TXT);
    version.queries[0].query_class = DNSClass::CH;
    let answer = ask_message("chaos sluice-7", &version).unwrap();
    assert!(answer.answers[0].data.to_string().contains("sluice-7"));
    let acl = |action: &str| format!("acl {{\n {action} type A net 10.1.0.0/16\n }}\n{KUBERNETES}");
    let code = |block: &str| ask(block, asked, RecordType::A).response_code;
    assert_eq!(code(&acl("block")), ResponseCode::Refused);
    let filtered = ask(&acl("filter"), asked, RecordType::A);
    assert_eq!(
        (filtered.response_code, filtered.answers.len()),
        (ResponseCode::NoError, 0)
    );
    assert!(ask_message(&acl("drop"), &query(asked, RecordType::A)).is_none());
    let other = acl("block").replace("10.1", "10.2");
    assert_eq!(code(&other), ResponseCode::NoError);
    let service = ask(&format!("minimal\n{KUBERNETES}"), asked, RecordType::SRV);
    assert_eq!((service.answers.len(), service.additionals.len()), (1, 0));
}

#[test]
fn the_longest_zone_answers() {
    let block = |zone: &str, ip: &str| {
        format!("{zone} {{\n bind 127.0.0.1\n hosts {{\n {ip} a.b.example b.example\n }}\n}}\n")
    };
    let text = block("example", "10.0.0.1") + &block("b.example", "10.0.0.2");
    let responder = Responder::new(&corefile(&text), objects(&[]), Options::default()).unwrap();
    let ask = |asked: &str, record_type| {
        let bytes = query(asked, record_type).to_vec().unwrap();
        let client = CLIENT.parse().unwrap();
        let answer = responder.respond(&bytes, client, Transport::Udp).unwrap();
        Message::from_vec(&answer).unwrap()
    };
    assert_eq!(
        addresses(&ask("a.B.example.", RecordType::A)),
        [[10, 0, 0, 2]]
    );
    assert_eq!(
        addresses(&ask("b.example.", RecordType::A)),
        [[10, 0, 0, 2]]
    );
    assert_eq!(
        ask("c.other.", RecordType::A).response_code,
        ResponseCode::Refused
    );
    assert_eq!(
        ask("b.example.", RecordType::DS).response_code,
        ResponseCode::NoError
    );
}

/// An upstream that knows these names, and says NXDOMAIN or this code otherwise.
struct Upstream {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    fn new(known: &[(&str, [u8; 4])], otherwise: ResponseCode) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let known: BTreeMap<Name, [u8; 4]> = known.iter().map(|it| (name(it.0), it.1)).collect();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = asked.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok((length, client)) = socket.recv_from(&mut bytes) {
                let query = Message::from_vec(&bytes[..length]).unwrap();
                let question = query.queries[0].clone();
                seen.lock()
                    .unwrap()
                    .push(question.name.to_lowercase().to_ascii());
                let mut answer = query.into_response();
                answer.metadata.recursion_available = true;
                match known.get(&question.name) {
                    Some(ip) => {
                        let data = RData::A(A((*ip).into()));
                        answer.add_answer(Record::from_rdata(question.name, 300, data));
                    }
                    None => answer.metadata.response_code = otherwise,
                }
                socket.send_to(&answer.to_vec().unwrap(), client).unwrap();
            }
        });
        Self { address, asked }
    }
}

struct Pod;

impl SearchPaths for Pod {
    fn search_path(&self, client: IpAddr) -> Option<Arc<[Name]>> {
        let path = [
            "default.svc.cluster.local.",
            "svc.cluster.local.",
            "cluster.local.",
            "corp.",
        ];
        let path: Vec<_> = path.iter().map(|it| name(it)).collect();
        client.is_loopback().then(|| path.into())
    }
}

fn completing(upstream: &Upstream) -> Served {
    let text = format!(
        ". {{\n bind 127.0.0.1\n autopath @kubernetes\n kubernetes cluster.local {{\n pods verified\n ttl 30\n }}\n \
         forward . {}\n}}",
        upstream.address
    );
    let search_paths: Option<Arc<dyn SearchPaths>> = Some(Arc::new(Pod));
    let options = Options {
        search_paths,
        ..Options::default()
    };
    Served::with(&text, options)
}

#[test]
fn the_search_path_is_followed() {
    let upstream = Upstream::new(
        &[("www.example.org.", [192, 0, 2, 1])],
        ResponseCode::NXDomain,
    );
    let served = completing(&upstream);
    let asked = "www.Example.org.default.svc.cluster.local.";
    let answer = served.ask(asked, RecordType::A);
    assert_eq!(
        lines(&answer.answers),
        [
            format!("{asked} 300 CNAME www.Example.org."),
            "www.Example.org. 300 A 192.0.2.1".into(),
        ]
    );
    assert_eq!(answer.response_code, ResponseCode::NoError);
    let asked = upstream.asked.lock().unwrap();
    assert_eq!(*asked, ["www.example.org.corp.", "www.example.org."]);
}

#[test]
fn names_of_the_cluster_are_found_on_the_path() {
    let upstream = Upstream::new(&[], ResponseCode::NXDomain);
    let served = completing(&upstream);
    let first = served.ask("one.default.svc.cluster.local.", RecordType::A);
    assert_eq!(first.answers.len(), 1);
    let second = served.ask("one.default.default.svc.cluster.local.", RecordType::A);
    assert_eq!(addresses(&second), [[10, 96, 0, 1]]);
    let missing = served.ask("nobody.default.svc.cluster.local.", RecordType::A);
    assert_eq!(missing.response_code, ResponseCode::NXDomain);
    assert!(missing.answers.is_empty() && missing.authoritative);
}

#[test]
fn an_uncertain_step_ends_the_search() {
    let known = [("www.example.org.", [192, 0, 2, 1])];
    let upstream = Upstream::new(&known, ResponseCode::ServFail);
    let served = completing(&upstream);
    let answer = served.ask("www.example.org.default.svc.cluster.local.", RecordType::A);
    // What is true of the asked name; the client goes on by itself.
    assert_eq!(answer.response_code, ResponseCode::NXDomain);
    assert!(answer.answers.is_empty());
}

#[test]
fn forwarded_answers_are_kept_and_those_of_the_cluster_are_not() {
    let upstream = Upstream::new(
        &[("www.example.org.", [192, 0, 2, 1])],
        ResponseCode::NXDomain,
    );
    let text = format!(
        ". {{\n bind 127.0.0.1\n kubernetes cluster.local in-addr.arpa {{\n fallthrough in-addr.arpa\n }}\n \
         cache 30\n forward . {}\n}}",
        upstream.address
    );
    let served = Served::new(&text);
    for _ in 0..3 {
        let answer = served.ask("www.example.org.", RecordType::A);
        assert_eq!(addresses(&answer), [[192, 0, 2, 1]]);
        assert!(answer.recursion_available);
    }
    assert_eq!(upstream.asked.lock().unwrap().len(), 1);
    let hits = "coredns_cache_hits_total{server=\"dns://127.0.0.1:0\",type=\"success\",view=\"\",zones=\".\"}";
    assert_eq!(served.metric(hits), Some(2.0));
    let reverse = "9.0.96.10.in-addr.arpa.";
    assert_eq!(
        served.ask(reverse, RecordType::PTR).response_code,
        ResponseCode::NXDomain
    );
    served.absorb(&cluster::service(
        "default",
        "nine",
        &[[10, 96, 0, 9].into()],
    ));
    assert_eq!(served.ask(reverse, RecordType::PTR).answers.len(), 1);
}

#[test]
fn a_query_that_comes_back_ends_the_server() {
    let (sent, received) = std::sync::mpsc::channel();
    let sent = Mutex::new(sent);
    let port = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = format!(".:{port} {{\n bind 127.0.0.1\n loop\n forward . 127.0.0.1:{port}\n}}");
    let options = Options {
        fatal: Arc::new(move |text| sent.lock().unwrap().send(text).unwrap()),
        ..Options::default()
    };
    let _served = Served::with(&text, options);
    let text = received.recv_timeout(crate::support::PATIENCE).unwrap();
    assert!(text.starts_with("loop: ") && !text.contains('\n'), "{text}");
}

#[test]
fn parallel_clients_get_their_own_answers() {
    let upstream = Upstream::new(
        &[("www.example.org.", [192, 0, 2, 1])],
        ResponseCode::NXDomain,
    );
    let text = format!(". {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let served = Served::new(&text);
    let clients: Vec<_> = (0..50).map(|_| Client::new(served.address())).collect();
    let queries: Vec<_> = clients
        .iter()
        .map(|_| query("wWw.example.org.", RecordType::A))
        .collect();
    for (client, query) in clients.iter().zip(&queries) {
        client.send(&query.to_vec().unwrap());
    }
    for (client, query) in clients.iter().zip(&queries) {
        let answer = Message::from_vec(&client.receive()).unwrap();
        assert_eq!(answer.id, query.id);
        assert_eq!(answer.queries[0].name.to_ascii(), "wWw.example.org.");
        assert_eq!(addresses(&answer), [[192, 0, 2, 1]]);
    }
}
