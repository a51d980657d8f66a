use super::*;

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const UDP: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout";
const UDP_STREAM: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream";

#[test]
fn a_refusal_names_file_value_reason_who_asked_and_a_way_out() {
    let conntrack = Write {
        path: MAX,
        wanted_by: WantedBy::Conntrack("maxPerCore"),
        value: 96,
    };
    let ipvs = Write {
        path: "/proc/sys/net/ipv4/vs/conntrack",
        wanted_by: WantedBy::Mode("ipvs"),
        value: 1,
    };
    let out = "run with --init-only in a privileged init container";
    let with_field = format!("{out}, set it on the machine, or set the field to 0");
    let without = format!("{out}, or set it on the machine");
    let cases = [
        (conntrack, Errno::EROFS, &*with_field),
        (conntrack, Errno::EACCES, &with_field),
        (conntrack, Errno::EOPNOTSUPP, "network namespace: run"),
        (conntrack, Errno::ENOENT, "nf_conntrack loaded?"),
        (conntrack, Errno::EINVAL, "Invalid argument"),
        (ipvs, Errno::EROFS, &without),
        (ipvs, Errno::EACCES, &format!("it takes root: {without}")),
        (ipvs, Errno::ENOENT, "this kernel was built without it"),
    ];
    for (write, errno, expected) in cases {
        let reason = io::Error::from(errno);
        let text = SysctlError(vec![Refused { write, reason }]).to_string();
        let start = match write.wanted_by {
            WantedBy::Conntrack(_) => format!("set {MAX} to 96 (conntrack.maxPerCore): "),
            WantedBy::Mode(_) => format!("set {} to 1 (mode ipvs): ", ipvs.path),
        };
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn advice_that_fits_all_is_given_once() {
    let refused = [MAX, UDP, UDP_STREAM].map(|path| Refused {
        write: Write {
            path,
            wanted_by: WantedBy::Conntrack("min"),
            value: 1,
        },
        reason: Errno::EROFS.into(),
    });
    let text = SysctlError(refused.into()).to_string();
    assert_eq!(text.matches("--init-only").count(), 1, "{text}");
    assert_eq!(text.matches("set /proc").count(), 3, "{text}");
}

#[test]
fn everything_that_is_refused_is_named() {
    let names = ["/proc/sys/net/sluice-one", "/proc/sys/net/sluice-two"];
    let wanted = names.map(|path| Write {
        path,
        wanted_by: WantedBy::Mode("ipvs"),
        value: 1,
    });
    let folder = tempfile::tempdir().expect("a temporary directory");
    let memory = Memory::beside(&folder.path().join("sluice.sock"));
    let error = write(wanted, &memory).expect_err("there are no such settings");
    assert_eq!(
        error.0.iter().map(|it| it.write.path).collect::<Vec<_>>(),
        names
    );
}
