//! Tests that packets are traced, and that the table that marks them is deleted with its socket.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sluice_nft::{
    Batch, Chain, ChainKind, Connection, Create, Expr, Fate, Hook, HookPoint, Kernel as _,
    KernelRule, MetaKey, Policy, Register, Step, TableFamily, Tracer, Verdict,
};

use crate::netns::{self, program};
use crate::table::SCOPE;

const DEADLINE: Duration = Duration::from_secs(20);

/// A table with this chain of output, whose socket owns it.
fn owned(exprs: Vec<Expr>) -> Connection {
    let hook = Hook {
        kind: ChainKind::Filter,
        point: HookPoint::Output,
        priority: -400,
        policy: Policy::Accept,
    };
    let chain = Chain {
        name: "mark".into(),
        hook: Some(hook),
        comment: None,
    };
    let rule = KernelRule {
        chain: "mark".into(),
        exprs,
        comment: Some("marks".into()),
    };
    let mut batch = Batch::new();
    batch.add_owned_table(0, SCOPE);
    batch.add_chain(1, SCOPE, &chain, Create::New);
    batch.add_rule(2, SCOPE, &rule);
    let mut connection = Connection::open().unwrap();
    connection.commit(&batch).unwrap();
    connection
}

/// Sets the mark of traced packets.
fn mark() -> Vec<Expr> {
    let register = Register::word(0);
    let one = Expr::ImmediateData {
        dreg: register,
        data: vec![1],
    };
    let trace = Expr::MetaSet {
        key: MetaKey::Trace,
        sreg: register,
    };
    vec![one, trace]
}

#[test]
fn the_way_of_a_packet_is_reported() {
    netns::run(|| {
        program("ip", &["link", "set", "lo", "up"], "");
        let ruleset = "table inet f {\nchain in {\ntype filter hook input priority 0\n\
            counter goto more\n}\nchain more {\ndrop comment \"no\"\n}\n}\n";
        program("nft", &["-f", "-"], ruleset);
        let mut connection = owned(mark());
        let mut tracer = Tracer::open().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[], "127.0.0.2:9").unwrap();
        let mut steps: Vec<Step> = Vec::new();
        while !steps
            .last()
            .is_some_and(|it| it.fate == Fate::Verdict(Verdict::Drop))
        {
            let step = tracer.wait(Instant::now() + DEADLINE).unwrap();
            steps.push(step.expect("the packet reaches the rule that drops"));
        }
        let header = steps[0].header.unwrap();
        assert_eq!(header.dst.to_string(), "127.0.0.2");
        assert_eq!((header.protocol, header.dst_port), (17, 9));
        assert_eq!(header.src_port, socket.local_addr().unwrap().port());
        let [.., goto, drop] = &steps[..] else {
            panic!("{steps:?}")
        };
        assert_eq!(goto.fate, Fate::Verdict(Verdict::Goto("more".into())));
        assert_eq!(
            (drop.family, &*drop.table, &*drop.chain),
            (TableFamily::Inet, "f", "more")
        );
        let rules = connection
            .numbered_rules(drop.family, "f", Some("more"))
            .unwrap();
        assert_eq!(rules.len(), 1);
        assert_eq!(Some(rules[0].handle), drop.handle);
        assert_eq!(rules[0].comment.as_deref(), Some("no"));
    });
}

#[test]
fn an_owned_table_is_nobody_elses_and_goes_with_its_socket() {
    netns::run(|| {
        let owner = owned(vec![Expr::Verdict(Verdict::Accept)]);
        program("nft", &["flush", "ruleset"], "");
        let mut other = Connection::open().unwrap();
        assert_eq!(other.tables(SCOPE.family).unwrap().len(), 1);
        let mut batch = Batch::new();
        batch.delete_table(0, SCOPE);
        assert!(other.commit(&batch).is_err());
        drop(owner);
        assert_eq!(other.tables(SCOPE.family).unwrap(), []);
    });
}
