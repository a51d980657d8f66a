//! Tests that the program `nft` prints the objects that were written, and loads its own listing again.

use sluice_nft::{
    Batch, Chain, ChainKind, Connection, Create, DataRef, ElementRef, Expr, Hook, HookPoint,
    Kernel as _, KernelRule, MetaKey, PayloadBase, Policy, Register, Set, SetData, Verdict,
};

use crate::netns;
use crate::table::{self, SCOPE};

const LISTING: &str = r#"table ip t {
	comment "the table"
	map frontends {
		type ipv4_addr . inet_proto . inet_service : verdict
		comment "what clients dial"
		elements = { 10.0.0.1 . 6 . 80 comment "ns/name:http" : goto leaf }
	}

	set locals {
		type ipv4_addr
		elements = { 10.0.0.9 comment "a node" }
	}

	chain leaf {
		comment "a leaf"
		reject comment "says no"
	}

	chain input {
		comment "the base"
		type filter hook input priority 0; policy accept;
		ip saddr @locals meta mark set 0x00004000
		ip daddr . meta l4proto . th dport vmap @frontends
	}
}
"#;

fn maps(batch: &mut Batch) {
    let frontends = Set {
        name: "frontends".into(),
        key_type: (7 << 12) | (12 << 6) | 13,
        key_length: 12,
        data: Some(SetData::Verdict),
        comment: Some("what clients dial".into()),
        ..Set::default()
    };
    batch.add_set(3, SCOPE, &frontends, Create::New);
    let locals = Set {
        name: "locals".into(),
        key_type: 7,
        key_length: 4,
        ..Set::default()
    };
    batch.add_set(4, SCOPE, &locals, Create::New);
    // One element: the order of several is that of a hash.
    let element = ElementRef {
        key: &[10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0],
        data: Some(DataRef::Verdict(Verdict::Goto("leaf"))),
        comment: Some("ns/name:http"),
        ..ElementRef::default()
    };
    batch.add_element(5, SCOPE, "frontends", &element, Create::New);
    let node = ElementRef {
        key: &[10, 0, 0, 9],
        comment: Some("a node"),
        ..ElementRef::default()
    };
    batch.add_element(6, SCOPE, "locals", &node, Create::New);
}

fn rules() -> [KernelRule; 3] {
    let word = Register::word;
    let network = |dreg, offset| Expr::Payload {
        dreg,
        base: PayloadBase::Network,
        offset,
        len: 4,
    };
    let rule = |chain: &str, exprs, comment: Option<&str>| KernelRule {
        chain: chain.into(),
        exprs,
        comment: comment.map(str::to_owned),
    };
    let reject = Expr::port_unreachable(SCOPE.family);
    let lookup = |set: &str, dreg| Expr::Lookup {
        set: set.into(),
        sreg: word(0),
        dreg,
        invert: false,
    };
    [
        rule("leaf", vec![reject], Some("says no")),
        rule(
            "input",
            vec![
                network(word(0), 12),
                lookup("locals", None),
                Expr::ImmediateData {
                    dreg: word(0),
                    data: 0x4000_u32.to_ne_bytes().to_vec(),
                },
                Expr::MetaSet {
                    key: MetaKey::Mark,
                    sreg: word(0),
                },
            ],
            None,
        ),
        rule(
            "input",
            vec![
                network(word(0), 16),
                Expr::Meta {
                    key: MetaKey::L4Proto,
                    dreg: word(1),
                },
                Expr::Payload {
                    dreg: word(2),
                    base: PayloadBase::Transport,
                    offset: 2,
                    len: 2,
                },
                lookup("frontends", Some(Register::VERDICT)),
            ],
            None,
        ),
    ]
}

#[test]
fn the_listing_says_what_was_written_and_loads_again() {
    netns::run(|| {
        let mut batch = Batch::new();
        batch.add_table(0, SCOPE, Some("the table"), Create::New);
        let hook = Hook {
            kind: ChainKind::Filter,
            point: HookPoint::Input,
            priority: 0,
            policy: Policy::Accept,
        };
        let leaf = Chain {
            name: "leaf".into(),
            hook: None,
            comment: Some("a leaf".into()),
        };
        let input = Chain {
            name: "input".into(),
            hook: Some(hook),
            comment: Some("the base".into()),
        };
        batch.add_chain(1, SCOPE, &leaf, Create::New);
        batch.add_chain(2, SCOPE, &input, Create::New);
        maps(&mut batch);
        rules().iter().for_each(|it| batch.add_rule(7, SCOPE, it));
        let mut connection = Connection::open().unwrap();
        connection.commit(&batch).unwrap();

        let ours = table::nft_list();
        assert_eq!(ours, LISTING);
        netns::program("nft", &["-f", "-"], &format!("flush ruleset\n{ours}"));
        assert_eq!(table::nft_list(), ours);
        // The rules that nft wrote are read as those that we wrote.
        let observed = connection.rules(SCOPE, None).unwrap();
        assert_eq!(observed.len(), rules().len());
        assert_eq!(observed[0], rules()[0]);
    });
}
