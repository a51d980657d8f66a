//! Packets of many datagrams whose bytes are in one piece, as some network cards put them together. A socket's are in
//! pieces, and programs read the first alone.

use std::net::SocketAddr;

use aya::programs::tc::TcAttachType;
use aya::programs::{SchedClassifier, TestRun as _, TestRunOptions};
use sluice_bpf_abi::Counter;
use sluice_lab::{Cluster, Netns, require_netns};
use sluice_route::link;

use crate::direct::world::{LONGEST, agents, cluster, headers, serve, targets};

const UDP: u8 = 17;
/// Offsets in `struct __sk_buff`.
const IFINDEX: usize = 40;
const GSO_SIZE: usize = 176;

/// A frame of the client with a datagram for a frontend of IPv4. Checksums are those of zeros: they are changed by what
/// is rewritten, and nobody looks.
fn frame(cluster: &Cluster, target: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let SocketAddr::V4(target) = target else {
        panic!("{target} is not of IPv4");
    };
    let length = |more: usize| u16::try_from(payload.len() + more).unwrap().to_be_bytes();
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(length(28));
    // It must not be fragmented.
    frame.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
    frame.extend(cluster.client("cli").ipv4().octets());
    frame.extend(target.ip().octets());
    frame.extend(4_711_u16.to_be_bytes());
    frame.extend(target.port().to_be_bytes());
    frame.extend(length(8));
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// The frame arrives at a node as segments of this length.
fn arrive(node: &Netns, frame: &[u8], segment: usize) {
    node.run(|| {
        let at = TcAttachType::Ingress;
        let (_, mut programs) = SchedClassifier::query_tcx("eth0", at).unwrap();
        let program = programs.pop().unwrap();
        let program = SchedClassifier::from_program_info(program, "sluice_ingress".into()).unwrap();
        let mut context = [0; 192];
        let index = link("eth0").unwrap().unwrap().index;
        context[IFINDEX..][..4].copy_from_slice(&index.to_ne_bytes());
        let segment = u32::try_from(segment).unwrap();
        context[GSO_SIZE..][..4].copy_from_slice(&segment.to_ne_bytes());
        let mut out = vec![0; frame.len() + 256];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ..TestRunOptions::default()
        };
        program.test_run(options).unwrap();
    });
}

/// What a datagram begins with is no header that says its own length.
#[test]
fn contents_do_not_count() {
    require_netns!();
    let cluster = cluster();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let [target, _] = targets();
    let fits = LONGEST - headers(target);
    for (length, byte, told) in [
        (fits, 0, [0, 0]),
        (fits, 0xff, [0, 0]),
        (fits + 1, 0, [1, 0]),
        (fits + 1, 0xff, [2, 0]),
    ] {
        let frame = frame(&cluster, target, &vec![byte; 2 * length]);

        arrive(cluster.node("node-a").netns(), &frame, length);
        let counted = agents[0].counted(Counter::TooLongForTunnel);
        assert_eq!(counted, told, "{length} bytes of {byte}");
    }
    assert_eq!(agents[0].counted(Counter::Tunnelled), [2, 0]);
}
