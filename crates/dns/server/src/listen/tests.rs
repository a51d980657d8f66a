use std::net::Ipv4Addr;

use super::*;

fn bind_error(kind: io::ErrorKind) -> String {
    let error = ListenError::Bind {
        address: "0.0.0.0:53".parse().unwrap(),
        protocol: "udp",
        source: kind.into(),
    };
    error.to_string()
}

#[test]
fn errors_say_what_to_do() {
    let taken = bind_error(io::ErrorKind::AddrInUse);
    assert!(
        taken.starts_with("listen on 0.0.0.0:53/udp: address in use: "),
        "{taken}"
    );
    let forbidden = bind_error(io::ErrorKind::PermissionDenied);
    assert!(forbidden.contains("NET_BIND_SERVICE"), "{forbidden}");
}

#[test]
fn an_interface_stands_for_its_addresses() {
    let bind = Bind {
        targets: vec![
            BindTarget::Interface("lo".into()),
            BindTarget::Address(Ipv4Addr::LOCALHOST.into()),
        ],
        except: vec![BindTarget::Address(Ipv6Addr::LOCALHOST.into())],
    };
    let lo = addresses(&bind, 53).unwrap();
    assert_eq!(
        lo.iter()
            .filter(|it| it.ip() == Ipv4Addr::LOCALHOST)
            .count(),
        1
    );
    assert!(!lo.iter().any(|it| it.ip() == Ipv6Addr::LOCALHOST));
    let bind = Bind {
        targets: vec![BindTarget::Interface("nothing0".into())],
        except: Vec::new(),
    };
    let error = addresses(&bind, 53).unwrap_err().to_string();
    assert_eq!(
        error,
        "bind nothing0: no such interface, or it has no address"
    );
}

/// As for CoreDNS, which is a program in Go.
#[test]
fn all_addresses_are_those_of_both_families() {
    for any in ["0.0.0.0", "::"] {
        let bind = Bind {
            targets: vec![BindTarget::Address(any.parse().unwrap())],
            except: Vec::new(),
        };
        let all = addresses(&bind, 53).unwrap();
        assert_eq!(all, [widened("[::]:53".parse().unwrap())], "{any}");
    }
}

/// An address of the link has its zone, without which nobody can listen on it.
#[test]
fn an_interface_stands_for_its_address_of_the_link() {
    sluice_lab::require_netns!();
    let netns = sluice_lab::Netns::new("bind").unwrap();
    netns.run(|| {
        for words in [
            "link add east type veth peer name west",
            "link set east up",
            "link set west up",
            "addr add fe80::53/64 dev east nodad",
        ] {
            let mut ip = std::process::Command::new("ip");
            assert!(ip.args(words.split(' ')).status().unwrap().success());
        }
        let bind = Bind {
            targets: vec![BindTarget::Interface("east".into())],
            except: Vec::new(),
        };
        let all = addresses(&bind, 0).unwrap();
        let ip = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 0x53]);
        let of_link = *all.iter().find(|it| it.ip() == ip).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let _in_runtime = runtime.as_ref().unwrap().enter();
        tcp(of_link, Sharing::Exclusive).unwrap();
        Socket::bind(of_link, Sharing::Exclusive).unwrap();
    });
}

#[test]
fn nobody_knows_a_server_by_loopback() {
    let listens = ["127.0.0.1:53", "10.1.2.3:53", "10.1.2.3:54"];
    let listens: Vec<_> = listens.iter().map(|it| it.parse().unwrap()).collect();
    assert_eq!(known_by(&listens).unwrap(), [IpAddr::from([10, 1, 2, 3])]);
}
