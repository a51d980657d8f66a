//! Questions over UDP.

#[cfg(test)]
use std::collections::BTreeSet;
use std::net::UdpSocket;

use crate::support::{CLUSTER, Client, Served, addresses, cluster, corefile, query, with_edns};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, RecordType};
use sluice_dns::{Options, Server};

const ONE: &str = "one.default.svc.cluster.local.";
const MANY: &str = "many.default.svc.cluster.local.";
const BIG: &str = "big.default.svc.cluster.local.";

#[test]
fn a_name_of_the_cluster_is_answered() {
    let served = Served::new(CLUSTER);
    let answer = served.ask(ONE, RecordType::A);
    assert_eq!(answer.response_code, ResponseCode::NoError);
    assert_eq!(answer.message_type, MessageType::Response);
    assert!(answer.authoritative && answer.recursion_desired);
    assert!(!answer.recursion_available && !answer.truncation && !answer.authentic_data);
    assert_eq!(addresses(&answer), [[10, 96, 0, 1]]);
    assert!(answer.edns.is_none());
}

#[test]
fn the_letter_case_of_the_question_is_kept() {
    let served = Served::new(CLUSTER);
    let asked = "oNe.DEFAULT.svc.Cluster.local.";
    // The second answer comes from the cache.
    for _ in 0..2 {
        let answer = served.ask(asked, RecordType::A);
        assert_eq!(answer.queries[0].name.to_ascii(), asked);
        assert_eq!(answer.answers[0].name.to_ascii(), asked);
    }
}

#[test]
fn a_changed_object_changes_the_next_answer() {
    let served = Served::new(CLUSTER);
    let client = Client::new(served.address());
    for number in 1..=100 {
        let ip = [10, 96, 1, number];
        served.absorb(&cluster::service("default", "one", &[ip.into()]));
        for _ in 0..3 {
            assert_eq!(addresses(&client.ask(&query(ONE, RecordType::A))), [ip]);
        }
    }
    assert!(served.metric("sluice_dns_wire_cache_hits_total ") >= Some(100.0));
}

#[test]
fn each_endpoint_comes_first() {
    let served = Served::new(CLUSTER);
    let client = Client::new(served.address());
    let asked = query(MANY, RecordType::A);
    let answers = (0..100).map(|_| addresses(&client.ask(&asked)));
    let mut firsts = BTreeSet::new();
    for answer in answers {
        assert_eq!(answer.iter().collect::<BTreeSet<_>>().len(), 10);
        firsts.insert(answer[0]);
    }
    assert_eq!(firsts.len(), 10);
}

#[test]
fn an_answer_is_no_larger_than_asked() {
    let served = Served::new(CLUSTER);
    let client = Client::new(served.address());
    let asked = query(BIG, RecordType::A);
    for (asked, most) in [
        (asked.clone(), 512),
        (with_edns(asked.clone(), 0), 512),
        (with_edns(asked.clone(), 700), 700),
        (with_edns(asked.clone(), 4096), 1232),
    ] {
        client.send(&asked.to_vec().unwrap());
        let bytes = client.receive();
        assert!(
            bytes.len() <= most && bytes.len() + 64 > most,
            "{} of {most}",
            bytes.len()
        );
        let answer = Message::from_vec(&bytes).unwrap();
        assert!(answer.truncation);
        assert_eq!(
            answer.edns.as_ref().map(Edns::max_payload),
            asked.edns.map(|_| 1232)
        );
    }
    let mut tcp = crate::support::TcpClient::new(served.address());
    let whole = tcp.ask(&asked);
    assert!(!whole.truncation);
    assert_eq!(addresses(&whole).len(), 200);
}

#[test]
fn bufsize_is_the_servers_limit() {
    let served = Served::new(&CLUSTER.replace("errors", "bufsize 600"));
    let asked = with_edns(query(BIG, RecordType::A), 4096);
    let answer = Client::new(served.address()).ask(&asked);
    assert!(answer.truncation);
    assert!(answer.to_vec().unwrap().len() <= 600);
    assert_eq!(answer.max_payload(), 600);
}

#[test]
fn what_is_no_query_of_class_in_is_refused() {
    let served = Served::new(CLUSTER);
    let client = Client::new(served.address());
    let code = |change: fn(&mut Message)| {
        let mut asked = query(ONE, RecordType::A);
        change(&mut asked);
        client.ask(&asked).response_code
    };
    assert_eq!(
        code(|it| it.metadata.op_code = OpCode::Notify),
        ResponseCode::NotImp
    );
    assert_eq!(
        code(|it| it.metadata.op_code = OpCode::Update),
        ResponseCode::NotImp
    );
    assert_eq!(code(|it| it.queries.clear()), ResponseCode::FormErr);
    assert_eq!(
        code(|it| it.queries.push(it.queries[0].clone())),
        ResponseCode::FormErr
    );
    assert_eq!(
        code(|it| it.queries[0].query_class = DNSClass::CH),
        ResponseCode::Refused
    );
    assert_eq!(
        code(|it| it.queries[0].query_type = RecordType::AXFR),
        ResponseCode::Refused
    );
    assert_eq!(
        code(|it| it.queries[0].query_type = RecordType::IXFR),
        ResponseCode::Refused
    );
    assert_eq!(
        code(|it| it.queries[0].name = crate::support::name("a.b.")),
        ResponseCode::ServFail
    );
    let bad_version = |it: &mut Message| {
        let mut edns = Edns::new();
        edns.set_version(1);
        it.set_edns(edns);
    };
    assert_eq!(u16::from(code(bad_version)), 16);
}

#[test]
fn responses_and_scraps_get_silence() {
    let served = Served::new(CLUSTER);
    let client = Client::new(served.address());
    client.send(b"");
    client.send(b"\0\x01\x01\0\0\x01");
    client.send(&query(ONE, RecordType::A).into_response().to_vec().unwrap());
    // Were any of them answered, the answer would be the next.
    let asked = query(MANY, RecordType::AAAA);
    assert_eq!(client.ask(&asked).queries, asked.queries);
}

#[test]
fn garbage_after_a_question_is_a_format_error_with_the_question() {
    let served = Served::new(CLUSTER);
    let client = Client::new(served.address());
    let mut bytes = query(ONE, RecordType::A).to_vec().unwrap();
    // One additional record, which is cut off.
    bytes[11] = 1;
    bytes.extend([0, 0, 41, 0]);
    client.send(&bytes);
    let answer = Message::from_vec(&client.receive()).unwrap();
    assert_eq!(answer.response_code, ResponseCode::FormErr);
    assert_eq!(answer.queries, query(ONE, RecordType::A).queries);
}

#[test]
fn the_do_flag_is_echoed() {
    let served = Served::new(CLUSTER);
    let mut asked = with_edns(query(ONE, RecordType::A), 1400);
    asked.edns.as_mut().unwrap().set_dnssec_ok(true);
    let answer = Client::new(served.address()).ask(&asked);
    assert!(answer.edns.unwrap().flags().dnssec_ok);
    let label = "coredns_dns_do_requests_total{server=\"dns://127.0.0.1:0\",view=\"\",zone=\".\"}";
    assert_eq!(served.metric(label), Some(1.0));
}

#[test]
fn several_threads_share_the_port() {
    let options = Options {
        threads: 4,
        ..Options::default()
    };
    let served = Served::with(CLUSTER, options);
    for _ in 0..100 {
        assert_eq!(addresses(&served.ask(ONE, RecordType::A)), [[10, 96, 0, 1]]);
    }
}

#[test]
fn answers_leave_from_the_address_that_was_asked() {
    let served = Served::new(&CLUSTER.replace("    bind 127.0.0.1\n", ""));
    let port = served.address().port();
    for ip in ["127.0.0.1", "127.0.0.2", "127.9.9.9"] {
        let client = Client::new((ip.parse::<std::net::IpAddr>().unwrap(), port).into());
        for _ in 0..3 {
            assert_eq!(
                addresses(&client.ask(&query(ONE, RecordType::A))),
                [[10, 96, 0, 1]]
            );
        }
    }
    if served.address().is_ipv6() && UdpSocket::bind("[::1]:0").is_ok() {
        let client = Client::new(([0, 0, 0, 0, 0, 0, 0, 1], port).into());
        assert_eq!(
            addresses(&client.ask(&query(ONE, RecordType::A))),
            [[10, 96, 0, 1]]
        );
    }
}

#[test]
fn a_taken_port_is_one_clear_line() {
    // Other tests' TCP connections have ports of 127.0.0.1.
    let taken = UdpSocket::bind("127.0.53.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = CLUSTER.replacen(". {", &format!(".:{port} {{"), 1);
    let text = text.replace("127.0.0.1", "127.0.53.1");
    let objects = crate::support::objects(&[]);
    let started = Server::start(&corefile(&text), objects.clone(), Options::default());
    let error = started.unwrap_err().to_string();
    let begin = format!("listen on 127.0.53.1:{port}/udp: address in use: ");
    assert!(
        error.starts_with(&begin) && !error.contains('\n'),
        "{error}"
    );
    drop(taken);
    // Neither may a second server of the same user share the port, although its threads could.
    let _first = Server::start(&corefile(&text), objects.clone(), Options::default()).unwrap();
    let second = Server::start(&corefile(&text), objects, Options::default());
    assert!(second.unwrap_err().to_string().starts_with(&begin));
}
