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

#[test]
fn nobody_knows_a_server_by_loopback() {
    let listens = ["127.0.0.1:53", "10.1.2.3:53", "10.1.2.3:54"];
    let listens: Vec<_> = listens.iter().map(|it| it.parse().unwrap()).collect();
    assert_eq!(known_by(&listens).unwrap(), [IpAddr::from([10, 1, 2, 3])]);
}
