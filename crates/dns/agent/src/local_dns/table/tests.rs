use sluice_nft::testing::Fake;

use super::*;

fn table() -> Table {
    let address = |it: &str| it.parse().unwrap();
    Table {
        addresses: ["169.254.20.10", "10.96.0.10", "fd00::a"]
            .map(address)
            .into(),
        port: 5353,
        cluster_ips: vec![address("10.96.0.10")],
        pods: [
            Some(LocalTraffic::From("10.244.1.0/24".parse().unwrap())),
            None,
        ],
    }
}

fn names(kernel: &mut Fake) -> Vec<String> {
    let tables = IpFamily::ALL.map(|it| kernel.tables(netlink(it)).unwrap());
    tables.into_iter().flatten().map(|it| it.name).collect()
}

#[test]
fn replies_are_replaced_and_queries_are_found() {
    let mut kernel = Fake::new();
    for _ in 0..2 {
        let replies = table().replies(&mut kernel).unwrap();
        kernel.commit(&replies).unwrap();
        assert_eq!(names(&mut kernel), [REPLIES, REPLIES]);
    }
    assert!(!has_queries(&mut kernel).unwrap());
    kernel.commit(&table().queries()).unwrap();
    assert!(has_queries(&mut kernel).unwrap());
    kernel.commit(&table().queries()).unwrap_err();
    let replies = delete_replies(&mut kernel).unwrap();
    kernel.commit(&replies).unwrap();
    assert_eq!(names(&mut kernel), [QUERIES, QUERIES]);
}

#[test]
fn a_table_of_our_name_without_our_comment_stays() {
    let mut kernel = Fake::new();
    let mut batch = Batch::new();
    batch.add_table(0, scope(IpFamily::V4, REPLIES), None, Create::New);
    kernel.commit(&batch).unwrap();
    assert!(delete_replies(&mut kernel).unwrap().is_empty());
    let replies = table().replies(&mut kernel).unwrap();
    kernel.commit(&replies).unwrap_err();
    assert_eq!(names(&mut kernel), [REPLIES]);
}

#[test]
fn rules_read_as_nft_lists_them() {
    let rules = table().query_rules(IpFamily::V4, Protocol::Udp);
    let text = rules.into_iter().map(|(point, rule)| {
        let mut out = format!("{}: ", point.word());
        rule.write(&mut out, Family::Ipv4).unwrap();
        out
    });
    assert_eq!(
        text.collect::<Vec<_>>(),
        [
            "output: udp dport 53 ip daddr @served udp dport set 5353 notrack",
            "prerouting: udp dport 53 ip daddr @anybody udp dport set 5353 notrack",
            "prerouting: udp dport 53 ip daddr @pods ip saddr 10.244.1.0/24 udp dport set 5353 notrack",
        ]
    );
}
