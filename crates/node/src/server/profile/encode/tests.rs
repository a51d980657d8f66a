use std::time::SystemTime;

use pprof::Frames;

use super::*;

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = message.split_first().expect("a whole number");
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The fields of a message: number, and integer or bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, Result<u64, Vec<u8>>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let number = varint(&mut message);
        let value = match key & 7 {
            0 => Ok(number),
            2 => {
                let (bytes, rest) = message.split_at(number as usize);
                message = rest;
                Err(bytes.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

/// The messages of one field.
fn messages(message: &[u8], field: u64) -> Vec<Vec<u8>> {
    let all = fields(message).into_iter().filter(|it| it.0 == field);
    all.filter_map(|it| it.1.err()).collect()
}

fn int(message: &[u8], field: u64) -> u64 {
    let mut all = fields(message).into_iter().filter(|it| it.0 == field);
    all.find_map(|it| it.1.ok()).expect("there")
}

/// The integers of a packed field.
fn packed(message: &[u8], field: u64) -> Vec<u64> {
    let bytes = messages(message, field).remove(0);
    let mut rest = &bytes[..];
    let mut numbers = Vec::new();
    while !rest.is_empty() {
        numbers.push(varint(&mut rest));
    }
    numbers
}

fn symbol(name: &str, line: u32) -> Symbol {
    Symbol {
        name: Some(name.into()),
        addr: None,
        lineno: Some(line),
        filename: Some("main.rs".into()),
    }
}

fn stack(frames: &[(&str, u32)]) -> Frames {
    let frames = frames.iter();
    Frames {
        frames: frames
            .map(|(name, line)| vec![symbol(name, *line)])
            .collect(),
        thread_name: "agent".to_owned(),
        thread_id: 7,
        sample_timestamp: SystemTime::UNIX_EPOCH,
    }
}

#[test]
fn stacks_can_be_read_back() {
    let mut report = Report {
        data: [
            (stack(&[("plan", 200), ("main", 3)]), 5),
            (stack(&[("apply", 10), ("main", 3)]), 2),
        ]
        .into(),
        timing: Default::default(),
    };
    report.timing.start_time = UNIX_EPOCH + Duration::from_secs(9);
    report.timing.duration = Duration::from_secs(1);
    let profile = profile(&report, 100);

    let words = messages(&profile, 6).into_iter();
    let words: Vec<String> = words
        .map(|it| String::from_utf8(it).expect("text"))
        .collect();
    assert_eq!(words[0], "");
    let word = |number: u64| words[number as usize].as_str();
    let functions: HashMap<u64, u64> = messages(&profile, 5)
        .iter()
        .map(|it| (int(it, 1), int(it, 2)))
        .collect();
    let locations: HashMap<u64, String> = messages(&profile, 4)
        .iter()
        .map(|it| {
            let line = &messages(it, 4)[0];
            let name = word(functions[&int(line, 1)]);
            (int(it, 1), format!("{name}:{}", int(line, 2)))
        })
        .collect();
    assert_eq!((functions.len(), locations.len()), (3, 3), "each once");
    let mut samples: Vec<String> = messages(&profile, 2)
        .iter()
        .map(|it| {
            let stack = packed(it, 1).into_iter().map(|it| locations[&it].clone());
            let label = &messages(it, 3)[0];
            let (key, value) = (word(int(label, 1)), word(int(label, 2)));
            let stack = stack.collect::<Vec<_>>().join(" ");
            format!("{stack} {:?} {key}={value}", packed(it, 2))
        })
        .collect();
    samples.sort();
    assert_eq!(
        samples,
        [
            "apply:10 main:3 [2, 20000000] thread=agent",
            "plan:200 main:3 [5, 50000000] thread=agent",
        ]
    );
    let times = (int(&profile, 9), int(&profile, 10), int(&profile, 12));
    assert_eq!(times, (9_000_000_000, 1_000_000_000, 10_000_000));
    let types: Vec<(&str, &str)> = messages(&profile, 1)
        .iter()
        .map(|it| (word(int(it, 1)), word(int(it, 2))))
        .collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
}
