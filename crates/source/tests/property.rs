//! Tests that no content of a file causes a panic or changes the objects of another file.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::support::{Object, load};

const EXAMPLES: [&str; 4] = ["multi-port", "loadbalancer-local", "dual-stack", "nodes"];

fn example(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::read(dir.join(name).with_extension("yaml")).unwrap()
}

/// The law: the objects of `a.yaml` stand, unless the hostile file comes first and has them too.
fn check(name: &str, bytes: &[u8]) {
    let temp = tempfile::tempdir().unwrap();
    fs::write(
        temp.path().join("a.yaml"),
        crate::support::service("healthy", 80),
    )
    .unwrap();
    let before = load(temp.path(), &crate::support::all_kinds()).unwrap();
    fs::write(temp.path().join(name), bytes).unwrap();
    let after = load(temp.path(), &crate::support::all_kinds()).unwrap();
    assert!(after.objects.contains(&before.objects[0]));
    let keys: std::collections::BTreeSet<_> = after.objects.iter().map(Object::key).collect();
    assert_eq!(keys.len(), after.objects.len(), "one object per key");
    for problem in &after.problems {
        assert_eq!(problem.file, name);
        let is_hidden = |it: char| it.is_control() || "\u{202e}\u{200b}\u{feff}".contains(it);
        assert!(!problem.to_string().contains(is_hidden));
    }
}

/// One change of a text.
#[derive(Clone, Debug)]
enum Mutation {
    Cut(usize, usize),
    Put(usize, String),
    Copy(usize, usize, usize),
    Byte(usize, u8),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let words = [
        "0", "-1", "null", "~", "{", "}", "[", "]", ": ", "- ", "\n", "\n---\n", "\t", "*a", "&a ",
        "<<: *a\n", "\"", "'", "|\n", "99999", "::", "!x ", "# ", "true", "1e400", "..",
        "\u{feff}", "\u{202e}", "\u{200b}",
    ];
    prop_oneof![
        (any::<usize>(), 1..40_usize).prop_map(|(at, length)| Mutation::Cut(at, length)),
        (any::<usize>(), prop::sample::select(words.to_vec()))
            .prop_map(|(at, word)| Mutation::Put(at, word.to_owned())),
        (any::<usize>(), any::<usize>(), 1..80_usize)
            .prop_map(|(from, to, length)| Mutation::Copy(from, to, length)),
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let place = |at: usize| at % (bytes.len() + 1);
    match mutation {
        Mutation::Cut(at, length) => {
            let start = place(*at);
            let end = (start + length).min(bytes.len());
            bytes.drain(start..end);
        }
        Mutation::Put(at, word) => {
            let at = place(*at);
            bytes.splice(at..at, word.bytes());
        }
        Mutation::Copy(from, to, length) => {
            let (from, to) = (place(*from), place(*to));
            let copy = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(to..to, copy);
        }
        Mutation::Byte(at, byte) => {
            let at = place(*at);
            if let Some(slot) = bytes.get_mut(at) {
                *slot = *byte;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check("b.yaml", &bytes);
        check("b.json", &bytes);
    }

    #[test]
    fn arbitrary_mutations(
        name in prop::sample::select(EXAMPLES.to_vec()),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut bytes = example(name);
        for it in &mutations {
            mutate(&mut bytes, it);
        }
        check("b.yaml", &bytes);
    }
}
