//! Assertions about any bytes read as a configuration, for the fuzzer and the tests.

use sluice_config::{decode, encode, warnings};

/// Reads the bytes, writes the configuration and reads it again: both must be equal.
///
/// # Panics
/// When they differ, or when a problem has more than one line.
pub fn check(bytes: &[u8]) {
    let mut decoded = match decode(bytes) {
        Ok(decoded) => decoded,
        Err(problems) => {
            assert!(!problems.is_empty());
            return problems.iter().for_each(one_line);
        }
    };
    decoded.ignored.iter().for_each(one_line);
    decoded.config.set_defaults();
    let text = encode(&decoded.config);
    let again = decode(text.as_bytes()).expect("what is written can be read");
    assert_eq!(again.config, decoded.config, "{text}");
    assert_eq!(again.ignored, [], "{text}");
    warnings(&decoded.config, &decoded.lines)
        .iter()
        .for_each(one_line);
    match decoded.config.effective() {
        Ok(effective) => assert!(effective.masquerade_mark.is_power_of_two()),
        Err(problems) => problems.iter().for_each(one_line),
    }
}

fn one_line(problem: &sluice_config::Problem) {
    assert!(
        !problem.to_string().contains(char::is_control),
        "{problem:?}"
    );
    assert!(!problem.message.is_empty());
}
