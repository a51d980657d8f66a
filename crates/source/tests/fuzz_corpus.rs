//! Runs the fuzzer's seeds and the hostile corpus with the stable toolchain.

#[path = "../../../fuzz/oracles/manifests.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz target")]
mod oracle;

use std::fs;
use std::path::Path;

#[test]
fn seeds_and_corpus_pass_the_oracle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = 0;
    for dir in [
        "../../fuzz/corpus/manifests",
        "tests/corpus",
        "../../examples",
    ] {
        for entry in fs::read_dir(root.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                oracle::check(&fs::read(&path).unwrap());
                files += 1;
            }
        }
    }
    assert!(files > 40, "{files}");
}
