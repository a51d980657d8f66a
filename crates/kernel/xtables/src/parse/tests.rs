use super::*;
use crate::rule::{Match, Sense, States, Target};

fn is_foreign(text: &str) -> bool {
    matches!(parse_rule(text), Rule::Foreign(kept) if &*kept == text)
}

#[test]
fn kube_proxys_rules_are_read_and_written_alike() {
    for text in [
        "-m comment --comment \"ns1/svc1:p80 cluster IP\" -m tcp -p tcp -d 172.30.0.41 --dport 80 \
         -j KUBE-SVC-XPGD46QRK7WJZT7O",
        "-m comment --comment \"ns1/svc1:p80 cluster IP\" -m tcp -p tcp -d 172.30.0.41 --dport 80 \
         ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ",
        "-m comment --comment ns1/svc1:p80 -s 10.180.0.1 -j KUBE-MARK-MASQ",
        "-m comment --comment ns1/svc1:p80 -m tcp -p tcp -j DNAT --to-destination 10.180.0.1:80",
        "-m comment --comment ns/s:p -m recent --name KUBE-SEP-X --set -m udp -p udp \
         -j DNAT --to-destination [fd00::1]:53",
        "-m recent --name KUBE-SEP-X --rcheck --seconds 10800 --reap -j KUBE-SEP-X",
        "-m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-X",
        "-m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in \
         this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
        "-m addrtype ! --src-type LOCAL --dst-type LOCAL -j RETURN",
        "-m mark ! --mark 0x4000/0x4000 -j RETURN",
        "-j MARK --or-mark 0x4000",
        "-j MARK --xor-mark 0x4000",
        "-j MARK --and-mark 0xffffbfff",
        "-j MARK --set-xmark 0x1/0xff",
        "-j MASQUERADE --random-fully",
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
        "-m conntrack --ctstate NEW -j REJECT",
        "-m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ",
        "-p tcp -m set ! --match-set KUBE-LOOP-BACK dst,dst,src -m ipvs --ipvs -j MASQUERADE",
        "-j SET --map-set NAME dst,dst --map-mark",
        "-m conntrack --ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP",
        "-m comment --comment ns1/svc1:p80 -m tcp -p tcp -d 127.0.0.0/8 --dport 3001 -m nfacct \
         --nfacct-name localhost_nps_accepted_pkts -j KUBE-EXT-XPGD46QRK7WJZT7O",
        "-i cali+ -j ACCEPT",
        "",
    ] {
        let rule = parse_rule(text);
        assert!(!matches!(rule, Rule::Foreign(_)), "{text}");
        assert_eq!(rule.to_string(), text);
    }
}

#[test]
fn what_the_kernel_cannot_tell_apart_is_equal() {
    for (ours, saved) in [
        (
            "-m comment --comment \"a b\" -m tcp -p tcp -d 10.0.0.1 --dport 80 -j X",
            "-d 10.0.0.1/32 -p tcp -m comment --comment \"a b\" -m tcp --dport 80 -j X",
        ),
        (
            "-m recent --name L --rcheck --seconds 9 --reap -j X",
            "-m recent --rcheck --seconds 9 --reap --name L --mask 255.255.255.255 --rsource -j X",
        ),
        (
            "-m recent --name L --set",
            "-m recent --set --name L --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource",
        ),
        (
            "-m statistic --mode random --probability 0.3333333333",
            "-m statistic --mode random --probability 0.33333333349",
        ),
        (
            "-j MARK --or-mark 0x4000",
            "-j MARK --set-xmark 0x4000/0x4000",
        ),
        (
            "-j MARK --xor-mark 0x4000",
            "-j MARK --set-xmark 0x4000/0x0",
        ),
        (
            "-j MARK --and-mark 0x1",
            "-j MARK --set-xmark 0x0/0xfffffffe",
        ),
        (
            "-j MARK --set-mark 0x5",
            "-j MARK --set-xmark 0x5/0xffffffff",
        ),
        ("-j REJECT", "-j REJECT --reject-with icmp-port-unreachable"),
        (
            "-j REJECT",
            "-j REJECT --reject-with icmp6-port-unreachable",
        ),
        ("-m sctp -p sctp --dport 9", "-p 132 -m sctp --dport 9"),
        ("-s 0.0.0.0/0 -j DROP", "-j DROP"),
        ("-d ::/0 -i + -j DROP", "-j DROP"),
        ("-s 10.1.2.3/8 -j DROP", "-s 10.0.0.0/8 -j DROP"),
        (
            "-m conntrack ! --ctstate NEW,INVALID",
            "-m conntrack ! --ctstate INVALID,NEW",
        ),
        ("-m mark --mark 0x1", "-m mark --mark 0x1/0xffffffff"),
        (
            "-m comment --comment a/b -m tcp -p tcp -d 127.0.0.0/8 --dport 9 -m nfacct \
             --nfacct-name c -j X",
            "-d 127.0.0.0/8 -p tcp -m comment --comment \"a/b\" -m tcp --dport 9 -m nfacct \
             --nfacct-name  c -j X",
        ),
    ] {
        assert_eq!(parse_rule(ours), parse_rule(saved), "{ours}");
        assert!(!is_foreign(ours) && !is_foreign(saved), "{ours}");
    }
}

#[test]
fn extensions_keep_the_order_in_which_a_deletion_names_them() {
    let saved = "-d 10.0.0.1/32 -p tcp -m comment --comment x -m tcp --dport 80 -j A";
    let written = "-d 10.0.0.1 -m comment --comment x -m tcp -p tcp --dport 80 -j A";
    assert_eq!(parse_rule(saved).to_string(), written);
}

#[test]
fn rules_of_others_are_kept_as_they_are() {
    for text in [
        "-o eth0 -j MASQUERADE",
        "-j LOG --log-prefix \"a b\"",
        "-j LOG",
        "-g CHAIN",
        "-p icmp -j ACCEPT",
        "! -p tcp -j ACCEPT",
        "-s 1.2.3.4/255.0.255.0 -j ACCEPT",
        "-m recent --rcheck --name L -j X",
        "-m recent --update --seconds 3 --name L",
        "-m recent --set --name L --mask 255.255.255.0 --rsource",
        "-m recent --set --name L --rdest",
        "-m statistic --mode nth --every 3",
        "-m statistic --mode random ! --probability 0.5",
        "-m conntrack --ctstate UNTRACKED",
        "-j DNAT --to-destination 1.2.3.4",
        "-j DNAT --to-destination 1.2.3.4:80 --random",
        "-j REJECT --reject-with tcp-reset",
        "-j MARK --set-xmark",
        "-m multiport --dports 1,2",
        "-p tcp -m tcp --sport 5",
        "-j ACCEPT -j DROP",
        "!",
        "! ! -s 1.2.3.4",
        "-m comment --comment",
        "-m set --match-set a src,src,src,src",
    ] {
        assert!(is_foreign(text), "{text}: {:?}", parse_rule(text));
        assert_eq!(parse_rule(text).to_string(), text);
    }
}

#[test]
fn a_listing_is_read_with_and_without_counters() {
    let plain = "\
# Generated by iptables-save v1.8.9 on Sat Nov 21 22:26:35 2026
*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -j NOTRACK
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:A - [0:0]
:B - [0:0]
-A PREROUTING -j A
-A A -j B
-A PREROUTING -j B
COMMIT
# Completed
";
    let counted = plain.replace("-A ", "[12:3456] -A ");
    let rules = parse(plain);
    assert_eq!(rules, parse(&counted));
    let chain = |name: &str| &rules[&(Table::Nat, ChainName::new(name))];
    assert_eq!(rules.len(), 3);
    assert_eq!(
        *chain("PREROUTING"),
        [parse_rule("-j A"), parse_rule("-j B")]
    );
    assert_eq!(*chain("A"), [parse_rule("-j B")]);
    assert_eq!(*chain("B"), []);
}

/// `nft` makes them beside those of iptables, and `iptables-nft-save` lists them.
#[test]
fn chains_of_longer_names_are_passed_over() {
    let name = "B".repeat(ChainName::LONGEST + 1);
    let text =
        format!("*nat\n:X - [0:0]\n:{name} - [0:0]\n-A X -j {name}\n-A {name} -j X\nCOMMIT\n");
    let chain = (Table::Nat, ChainName::new("X"));
    let rule = Rule::Foreign(format!("-j {name}").into());
    assert_eq!(parse(&text), Ruleset::from([(chain, vec![rule])]));
}

#[test]
fn scripts_change_what_they_name() {
    let mut rules = parse("*nat\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n-A A -j B\n-A B -j ACCEPT\n");
    let script = "*nat\n:B - [0:0]\n:D - [0:0]\n-A B -j DROP\n-I A -j D\n-A A -j RETURN\n\
                  -D A -j B\n-X C\nCOMMIT\n*filter\n-N X\n";
    play(&mut rules, script);
    let wanted = "*nat\n:A - [0:0]\n:B - [0:0]\n:D - [0:0]\n-A A -j D\n-A A -j RETURN\n\
                  -A B -j DROP\n*filter\n:X - [0:0]\n";
    assert_eq!(rules, parse(wanted));
}

#[test]
fn comments_cannot_break_out() {
    for text in [
        "a\" -j ACCEPT \"",
        "a\\",
        "\\\" -j ACCEPT",
        "a\nCOMMIT\n",
        "a\0b",
        "it's",
        "",
        "#",
        "-j",
        "ü\u{85}\u{2028}",
        &"é".repeat(300),
    ] {
        let rule = Rule::when([Match::comment(text)], Target::Drop);
        let line = rule.to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.contains(char::is_control), "{line}");
        assert_eq!(parse_rule(&line), rule);
        assert_eq!(
            rule,
            Rule::when([Match::Comment(text.into())], Target::Drop)
        );
    }
    let cut = Match::comment(&format!("x{}", "é".repeat(300)));
    assert!(matches!(cut, Match::Comment(it) if it.len() == 255));
}

#[test]
fn order_of_conditions_does_not_matter() {
    let state = Match::State(Sense::Is, States::NEW);
    let (a, b) = (Match::DestinationPort(1), Match::comment("x"));
    let one = Rule::count([state.clone(), a.clone(), b.clone()]);
    assert_eq!(one, Rule::count([b.clone(), state.clone(), a]));
    assert_ne!(one, Rule::count([b, state]));
}

#[test]
fn chains_that_foreign_rules_lead_to_are_found() {
    let chains = |text: &str| {
        let chains = parse_rule(text).chains().into_iter();
        chains.map(|it| it.to_string()).collect::<Vec<_>>()
    };
    for (rule, expected) in [
        ("-j A", &["A"][..]),
        ("-m comment --comment x", &[]),
        ("-p tcp -m owner --uid-owner 7 -j A", &["A"]),
        ("-m owner --uid-owner 7 -g A", &["A"]),
        ("-m owner --uid-owner 7", &[]),
        // A comment that looks like a jump, and one that does not.
        ("-m owner -m comment --comment -j -j A", &["-j", "A"]),
        ("-m owner -m comment --comment \"-j B\" -j A", &["A"]),
    ] {
        assert_eq!(chains(rule), expected, "{rule}");
    }
}
