//! Which answers count, and what of them.

use std::collections::HashSet;

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::rdata::{CNAME, NS};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use sluice_corefile::ForwardProtocol;
use sluice_upstream::{Failure, Question, Transport, Unusable};

use crate::server::{
    Act, Over, Ports, Seen, Server, address, asking, honest, record, response, saying, send,
};
use crate::{addresses, config, forwarder, name, question};

/// Asks `server`, over UDP at first, for the address of `a.example.`.
async fn ask(server: &Server) -> Result<Message, Failure> {
    forwarder(&config(&[server]))
        .exchange(&question("a.example."), Transport::Udp)
        .await
}

/// The addresses that a client sees of what an upstream sends over UDP.
async fn seen_by_client<F>(behaviour: F) -> Vec<u8>
where
    F: Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
{
    let server = Server::start(Ports::UdpOnly, behaviour).await;
    let response = ask(&server).await.unwrap();
    addresses(&response)
}

#[tokio::test]
async fn a_question_is_sent_as_it_was_asked() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let forwarder = forwarder(&config(&[&server]));
    let asked = Question {
        checking_disabled: true,
        dnssec_ok: true,
        ..question("eXaMPle.org.")
    };
    let response = forwarder.exchange(&asked, Transport::Udp).await.unwrap();
    assert_eq!(response.id, 0);
    assert_eq!(response.edns, None);
    assert!(response.recursion_available && response.checking_disabled);
    assert!(response.queries[0].name.eq_case(&name("eXaMPle.org.")));
    let [seen] = server.seen().try_into().unwrap();
    assert!(seen.query.recursion_desired && seen.query.checking_disabled);
    assert!(seen.query.queries[0].name.eq_case(&name("eXaMPle.org.")));
    let edns = seen.query.edns.unwrap();
    assert_eq!(edns.max_payload(), 1232);
    assert!(edns.flags().dnssec_ok);
    assert!(edns.options().options.is_empty());
}

#[tokio::test]
async fn ports_and_ids_differ() {
    let server = Server::start(Ports::UdpOnly, honest(1)).await;
    let forwarder = forwarder(&config(&[&server]));
    for number in 0..50 {
        let asked = question(&format!("n{number}.example."));
        forwarder.exchange(&asked, Transport::Udp).await.unwrap();
    }
    let seen = server.seen();
    let ids: HashSet<u16> = seen.iter().map(|it| it.query.id).collect();
    let ports: HashSet<u16> = seen.iter().map(|it| it.from.port()).collect();
    assert!(ids.len() > 45, "{ids:?}");
    assert!(ports.len() > 45, "{ports:?}");
}

#[tokio::test]
async fn lies_are_ignored_until_the_answer_comes() {
    let seen = seen_by_client(|Seen { query, .. }| {
        let asked = &query.queries[0];
        let mut wrong_id = address(query, 66);
        wrong_id.metadata.id ^= 1;
        let mut wrong_class = asked.clone();
        wrong_class.set_query_class(DNSClass::CH);
        let mut no_question = address(query, 66);
        no_question.queries.clear();
        let mut lies = [
            wrong_id,
            asking(query, Query::query(name("b.example."), RecordType::A)),
            asking(query, Query::query(asked.name.clone(), RecordType::AAAA)),
            asking(query, wrong_class),
            no_question,
            query.clone(),
        ]
        .iter()
        .map(send)
        .collect::<Vec<_>>();
        lies.push(Act::Send(Vec::new()));
        lies.push(Act::Send(query.id.to_be_bytes().to_vec()));
        lies.push(Act::Send(vec![0xff; 600]));
        lies.push(Act::SendFromElsewhere(address(query, 66).to_vec().unwrap()));
        lies.push(send(&address(query, 1)));
        lies
    })
    .await;
    assert_eq!(seen, [1]);
}

#[tokio::test]
async fn a_flood_of_guesses_leads_to_tcp() {
    let server = Server::start(Ports::Both, |Seen { query, over, .. }| match over {
        Over::Tcp => vec![send(&address(query, 1))],
        Over::Udp => (1..=200)
            .map(|change| {
                let mut guess = address(query, 66);
                guess.metadata.id = guess.id.wrapping_add(change);
                send(&guess)
            })
            .collect(),
    })
    .await;
    assert_eq!(addresses(&ask(&server).await.unwrap()), [1]);
}

#[tokio::test]
async fn records_of_others_are_dropped() {
    let server = Server::start(Ports::UdpOnly, |Seen { query, .. }| {
        let mut answer = address(query, 1);
        answer.add_answer(record(&name("bank.example."), 66));
        let server = RData::NS(NS(name("ns.evil.")));
        answer.add_authority(Record::from_rdata(name("com."), 60, server));
        answer.add_additional(record(&name("ns.evil."), 66));
        vec![send(&answer)]
    })
    .await;
    let response = ask(&server).await.unwrap();
    assert_eq!(addresses(&response), [1]);
    assert_eq!(response.all_sections().count(), 1);
}

#[tokio::test]
async fn an_alias_loop_is_a_failure() {
    let server = Server::start(Ports::UdpOnly, |Seen { query, .. }| {
        let mut answer = response(query, ResponseCode::NoError);
        for (owner, target) in [("a.example.", "b."), ("b.", "a.example.")] {
            let alias = RData::CNAME(CNAME(name(target)));
            answer.add_answer(Record::from_rdata(name(owner), 60, alias));
        }
        vec![send(&answer)]
    })
    .await;
    let failure = ask(&server).await.unwrap_err();
    let Failure::Unusable { reason, .. } = &failure else {
        panic!("{failure}");
    };
    assert_eq!(*reason, Unusable::AliasLoop);
    assert_eq!(failure.response_code(), ResponseCode::ServFail);
}

/// Over UDP truncated, over TCP whole.
fn truncating(Seen { query, over, .. }: &Seen) -> Vec<Act> {
    let mut answer = address(query, 1);
    match over {
        Over::Udp => answer.metadata.truncation = true,
        Over::Tcp => {
            for last in 2..200 {
                answer.add_answer(record(&query.queries[0].name, last));
            }
        }
    }
    vec![send(&answer)]
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_over_tcp() {
    for protocol in [ForwardProtocol::AsAsked, ForwardProtocol::PreferUdp] {
        let server = Server::start(Ports::Both, truncating).await;
        let forwarder = forwarder(&sluice_corefile::Forward {
            protocol,
            ..config(&[&server])
        });
        let response = forwarder
            .exchange(&question("a."), Transport::Udp)
            .await
            .unwrap();
        assert!(!response.truncation);
        assert_eq!(response.answers.len(), 199);
    }
}

#[tokio::test]
async fn a_truncated_answer_is_better_than_none() {
    let server = Server::start(Ports::UdpOnly, truncating).await;
    let response = ask(&server).await.unwrap();
    assert!(response.truncation);
    assert_eq!(addresses(&response), [1]);
}

#[tokio::test]
async fn a_record_cut_in_two_counts_as_truncated() {
    let server = Server::start(Ports::Both, |seen: &Seen| {
        let mut acts = truncating(seen);
        if let (Over::Udp, Act::Send(bytes)) = (seen.over, &mut acts[0]) {
            bytes.truncate(bytes.len() - 15);
        }
        acts
    })
    .await;
    let response = ask(&server).await.unwrap();
    assert_eq!(response.answers.len(), 199);
}

#[tokio::test]
async fn a_server_without_edns_is_asked_without() {
    let refusing = |Seen { query, .. }: &Seen| match &query.edns {
        Some(_) => {
            let mut refusal = response(query, ResponseCode::FormErr);
            refusal.edns = None;
            refusal.queries.clear();
            vec![send(&refusal)]
        }
        None => vec![send(&address(query, 1))],
    };
    assert_eq!(seen_by_client(refusing).await, [1]);
}

#[tokio::test]
async fn extended_codes_and_empty_answers_pass() {
    for code in [
        ResponseCode::NXDomain,
        ResponseCode::ServFail,
        ResponseCode::Refused,
        ResponseCode::BADCOOKIE,
    ] {
        let server = Server::start(Ports::UdpOnly, saying(code)).await;
        let response = ask(&server).await.unwrap();
        assert_eq!(response.response_code, code);
    }
}

#[tokio::test]
async fn options_of_the_upstream_stay_there() {
    let server = Server::start(Ports::UdpOnly, |Seen { query, .. }| {
        let mut answer: Message = address(query, 1);
        answer.edns = Some(Edns::new());
        vec![send(&answer)]
    })
    .await;
    let response = ask(&server).await.unwrap();
    assert_eq!(response.edns, None);
}
