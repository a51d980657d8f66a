//! Objects of other programs: sets of `ipset`.

use sluice_netlink::ipset::{Member, Sets};
use sluice_netlink::{Errno, RequestError};

use crate::ipsets::use_set;
use crate::netns::{self, program};

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
        use_set("used");
        let mut sets = Sets::open().unwrap();
        let error = sets.destroy("used").unwrap_err().to_string();
        assert_eq!(error, "destroy ipset used: the set is in use");
        assert!(sets.names().unwrap().contains("used"));
    });
}
