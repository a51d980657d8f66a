//! Objects of other programs: rules of `iptables` and sets of `ipset`.

use sluice_netlink::ipset::{Member, Sets};
use sluice_netlink::nftables::{Batch, Connection, Family, Scope};
use sluice_netlink::{Errno, RequestError};

use crate::netns::{self, program};

const NAT: Scope<'static> = Scope {
    family: Family::Ipv4,
    table: "nat",
};

#[test]
fn jumps_of_iptables_are_found_and_deleted_alone() {
    netns::run(|| {
        let rules = "*nat\n:THEIRS - [0:0]\n:OTHER - [0:0]\n\
                     -A PREROUTING -p tcp -m tcp --dport 80 -m comment --comment one -j THEIRS\n\
                     -A PREROUTING -m statistic --mode random --probability 0.5 -g OTHER\n\
                     -A PREROUTING -p udp -j RETURN\n\
                     -A THEIRS -p tcp -j DNAT --to-destination 10.0.0.1:80\nCOMMIT\n";
        program("iptables-nft-restore", &[], rules);
        let mut connection = Connection::open().unwrap();
        let jumps = connection.jumps(NAT).unwrap();
        let shown = |it: &sluice_netlink::nftables::Jump| format!("{} {}", it.chain, it.target);
        assert_eq!(
            jumps.iter().map(shown).collect::<Vec<_>>(),
            ["PREROUTING THEIRS", "PREROUTING OTHER"]
        );
        let mut batch = Batch::new();
        batch.delete_rule(0, NAT, "PREROUTING", jumps[0].handle);
        batch.flush_chain(1, NAT, "THEIRS");
        batch.delete_chain(2, NAT, "THEIRS");
        connection.commit(&batch).unwrap();
        let left = program("iptables-nft-save", &["-t", "nat"], "");
        assert!(!left.contains("THEIRS"), "{left}");
        assert!(left.contains("-p udp -j RETURN"), "{left}");
        assert!(left.contains("-g OTHER"), "{left}");
        let gone = connection.commit(&batch).unwrap_err().to_string();
        assert!(gone.contains("object 0"), "{gone}");
    });
}

#[test]
fn sets_are_listed_and_destroyed() {
    netns::run(|| {
        let made = "create ports bitmap:port range 0-65535\nadd ports 30080\n\
                    create four hash:ip,port\nadd four 10.0.0.1,tcp:80\n\
                    create six hash:ip,port,ip family inet6\nadd six fd00::1,udp:53,fd00::2\n";
        program("ipset", &["restore"], made);
        let mut sets = Sets::open().unwrap();
        let names: Vec<String> = sets.names().unwrap().into_iter().collect();
        assert_eq!(names, ["four", "ports", "six"]);
        let member = |ip: Option<&str>, port, protocol| Member {
            ip: ip.map(|it| it.parse().unwrap()),
            port: Some(port),
            protocol,
            ..Member::default()
        };
        assert_eq!(sets.members("ports").unwrap(), [member(None, 30080, None)]);
        assert_eq!(
            sets.members("four").unwrap(),
            [member(Some("10.0.0.1"), 80, Some(6))]
        );
        let second = Some("fd00::2".parse().unwrap());
        let six = member(Some("fd00::1"), 53, Some(17));
        assert_eq!(sets.members("six").unwrap(), [Member { second, ..six }]);
        sets.destroy("four").unwrap();
        sets.destroy("four").unwrap();
        let error = sets.members("four").unwrap_err();
        let enoent = matches!(
            &error,
            RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }
        );
        assert!(enoent, "{error}");
        let names: Vec<String> = sets.names().unwrap().into_iter().collect();
        assert_eq!(names, ["ports", "six"]);
    });
}

#[test]
fn a_set_in_use_stays() {
    netns::run(|| {
        program("ipset", &["create", "used", "hash:ip"], "");
        netns::use_set("used");
        let mut sets = Sets::open().unwrap();
        let error = sets.destroy("used").unwrap_err().to_string();
        assert_eq!(error, "destroy ipset used: the set is in use");
        assert!(sets.names().unwrap().contains("used"));
    });
}
