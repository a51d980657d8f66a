//! What the compiler lacks: checks of the source tree (`tidy`), and the book's pages in one folder
//! (`book FOLDER`).

mod book;
mod page;
mod tidy;

use std::io;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match args[..] {
        ["tidy"] => report("tidy", tidy::run()),
        ["book", folder] => {
            let laid_out = book::lay_out(&root, Path::new(folder));
            report("book", laid_out.map(|()| Vec::new()))
        }
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | book FOLDER");
            ExitCode::from(2)
        }
    }
}

/// Success, unless there are problems.
fn report(task: &str, outcome: io::Result<Vec<String>>) -> ExitCode {
    let problems = outcome.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|it| eprintln!("{task}: {it}"));
    if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
