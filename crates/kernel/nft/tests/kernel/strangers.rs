//! Objects of other programs: rules of `iptables`.

use sluice_nft::{Action, Batch, Connection, Family, Kernel as _, Scope, TableFamily};

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
        let rules = connection.numbered_rules(TableFamily::Ip, NAT.table, None);
        let rules = rules.unwrap().into_iter();
        let jumps: Vec<_> = rules
            .filter_map(|it| match it.action? {
                Action::Continue(target) => Some((it.handle, format!("{} {target}", it.chain))),
                _ => None,
            })
            .collect();
        assert_eq!(
            jumps.iter().map(|it| &*it.1).collect::<Vec<_>>(),
            ["PREROUTING THEIRS", "PREROUTING OTHER"]
        );
        let mut batch = Batch::new();
        batch.delete_rule(0, NAT, "PREROUTING", jumps[0].0);
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
