//! The seeds of the fuzz targets, for tests.

use std::fs;
use std::path::Path;

/// The seeds of a target, for the tests of a crate at `crates/area/name`.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let files = fs::read_dir(corpus.join(target)).expect("the corpus");
    files
        .map(|it| fs::read(it.expect("a file").path()).expect("a seed"))
        .collect()
}
