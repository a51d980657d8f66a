use super::*;
use proptest::prelude::*;

fn head(kind: u16) -> Head {
    Head {
        kind,
        flags: ACK,
        first: [2, 0, 0, 10],
    }
}

/// An `NLMSG_ERROR` as the kernel builds it in `netlink_ack`.
fn error(flags: u16, code: i32, echoed: &[u8], tlvs: &AttrWriter) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[4..6].copy_from_slice(&ERROR.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&code.to_ne_bytes());
    bytes.extend_from_slice(echoed);
    bytes.extend_from_slice(tlvs.as_bytes());
    let length = u32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

#[test]
fn reads_back_what_was_written() {
    let mut writer = AttrWriter::new();
    for kind in [0xa00, 0xa01] {
        let start = begin(&mut writer, head(kind), 7);
        writer.string(5, "x");
        end(&mut writer, start);
    }
    let read: Vec<_> = Messages::new(writer.as_bytes()).collect();
    assert_eq!(read.len(), 2);
    assert_eq!(
        (
            read[1].kind,
            read[1].flags,
            read[1].sequence,
            read[1].family()
        ),
        (0xa01, ACK | REQUEST, 7, 2)
    );
    assert_eq!(read[1].attrs().str(5), Some("x"));
    assert_eq!(read[1].answer(), None);
}

#[test]
fn an_error_carries_text_and_offset_with_and_without_the_request() {
    let mut request = AttrWriter::new();
    let start = begin(&mut request, head(1), 7);
    request.string(5, "some payload");
    end(&mut request, start);
    let mut tlvs = AttrWriter::new();
    tlvs.string(EXTACK_MESSAGE, "because");
    tlvs.u32_ne(EXTACK_OFFSET, 20);
    for (flags, echoed) in [
        (ACK_TLVS, request.as_bytes()),
        (ACK_TLVS | CAPPED, &request.as_bytes()[..HEADER]),
    ] {
        let bytes = error(flags, -libc::ENOENT, echoed, &tlvs);
        let answer = Messages::new(&bytes)
            .next()
            .and_then(|it| it.answer())
            .unwrap();
        assert_eq!(
            answer,
            Answer {
                sequence: 7,
                errno: Some(Errno::ENOENT),
                code: libc::ENOENT,
                message: Some("because".into()),
                offset: Some(20)
            }
        );
    }
}

#[test]
fn error_code_zero_is_an_acknowledgement() {
    let bytes = error(CAPPED, 0, &[0; HEADER], &AttrWriter::new());
    assert_eq!(
        Messages::new(&bytes)
            .next()
            .and_then(|it| it.answer())
            .unwrap()
            .errno,
        None
    );
}

proptest! {
    #[test]
    fn never_panics_on_random_bytes(bytes in prop::collection::vec(prop_oneof![0_u8..24, any::<u8>()], 0..300), kind in 0_u16..4) {
        for message in Messages::new(&bytes) {
            let message = Message { kind, ..message };
            let _ = (message.answer(), message.family(), message.attrs().count());
        }
    }

    #[test]
    fn never_panics_on_hostile_errors(flags in any::<u16>(), code in any::<i32>(), tail in prop::collection::vec(0_u8..40, 0..80)) {
        let bytes = error(flags, code, &tail, &AttrWriter::new());
        Messages::new(&bytes).for_each(|it| drop(it.answer()));
    }
}
