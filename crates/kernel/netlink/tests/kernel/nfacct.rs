//! Counters that rules mention: made once, counting, gone when no rule needs them.

use std::net::{SocketAddr, UdpSocket};

use sluice_netlink::Errno;
use sluice_netlink::nfacct::Accounts;

use crate::netns::{self, program};

const NAME: &str = "some_packets";

/// In both families; the rules of one count for the other, too.
fn rules(command: &str) {
    for iptables in ["iptables-nft", "ip6tables-nft"] {
        let rule = format!("{command} INPUT -p udp --dport 9 -m nfacct --nfacct-name {NAME}");
        let rule: Vec<&str> = rule.split(' ').collect();
        program(iptables, &rule, "");
    }
}

#[test]
fn a_counter_counts_and_goes_when_no_rule_mentions_it() {
    netns::run(|| {
        program("ip", &["link", "set", "lo", "up"], "");
        let mut accounts = Accounts::open().unwrap();
        assert_eq!(accounts.packets(NAME).unwrap(), None);
        accounts.ensure(NAME).unwrap();
        assert_eq!(accounts.packets(NAME).unwrap(), Some(0));
        rules("-A");
        for to in ["127.0.0.1:9", "127.0.0.1:10", "[::1]:9"] {
            let to: SocketAddr = to.parse().unwrap();
            let socket = UdpSocket::bind((to.ip(), 0)).unwrap();
            socket.send_to(b"x", to).unwrap();
        }
        assert_eq!(accounts.packets(NAME).unwrap(), Some(2));
        accounts.ensure(NAME).unwrap();
        assert_eq!(accounts.packets(NAME).unwrap(), Some(2), "it goes on");
        let error = accounts.delete(NAME).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EBUSY));
        assert!(error.to_string().contains(NAME), "{error}");
        rules("-D");
        assert!(accounts.delete(NAME).unwrap());
        assert!(!accounts.delete(NAME).unwrap());
        assert_eq!(accounts.packets(NAME).unwrap(), None);
    });
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    netns::run(|| {
        let mut accounts = Accounts::open().unwrap();
        let long = "x".repeat(32);
        let error = accounts.ensure(&long).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EINVAL), "{error}");
        accounts.ensure(&long[1..]).unwrap();
        assert_eq!(accounts.packets(&long[1..]).unwrap(), Some(0));
    });
}
