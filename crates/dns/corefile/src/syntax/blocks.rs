//! Server blocks: keys, and directives with their options.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::stream::Stream;
use super::token::{self, Token};
use crate::values::quoted;
use crate::{Location, Note, Problem, Sources};

/// Blocks in blocks, at most. No plugin has more than two.
const MAX_DEPTH: u32 = 4;

/// A server block as written.
#[derive(Debug)]
pub(crate) struct RawBlock {
    /// At least one.
    pub(crate) keys: Vec<Token>,
    pub(crate) directives: Vec<Directive>,
}

/// A plugin with its arguments and options; an option has the same form.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) name: Token,
    pub(crate) args: Vec<Token>,
    /// The options in braces.
    pub(crate) options: Vec<Directive>,
}

/// A Corefile as written.
pub(crate) struct Parsed {
    pub(crate) blocks: Vec<RawBlock>,
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) notes: Vec<Note>,
}

/// Parses the blocks of a Corefile, up to the first error.
pub(crate) fn parse(file: &str, text: &str, sources: &dyn Sources) -> Result<Parsed, Problem> {
    let file = Arc::from(file);
    let mut stream = Stream::new(token::tokens(&file, text)?, sources);
    let mut blocks = Vec::new();
    while stream.peek().is_some() {
        let keys = keys(&mut stream)?;
        let Some(key) = keys.first() else {
            continue;
        };
        let name = key
            .text
            .strip_prefix('(')
            .and_then(|it| it.strip_suffix(')'));
        if let (Some(name), [key]) = (name, &*keys) {
            let body = snippet(&mut stream, key)?;
            stream.define(name, &key.place, body)?;
            continue;
        }
        let directives = contents(&mut stream, &key.place)?;
        blocks.push(RawBlock { keys, directives });
    }
    let unmatched = stream.unmatched.iter().map(|(place, pattern)| {
        let pattern = quoted(pattern);
        Note::at(place, format!("import: no file fits {pattern}"))
    });
    Ok(Parsed {
        blocks,
        notes: unmatched.collect(),
        files: stream.files,
    })
}

/// The keys of a block: one line, or more after a comma.
fn keys(stream: &mut Stream<'_>) -> Result<Vec<Token>, Problem> {
    let (mut keys, mut begun, mut comma) = (Vec::new(), false, None);
    while let Some(next) = stream.peek() {
        if begun && comma.is_none() && next.first {
            break;
        }
        if next.first && next.text == "import" {
            let import = stream.next().expect("it was peeked at");
            stream.import(&import.place)?;
            continue;
        }
        if next.text == "{" {
            if !begun {
                let why = "a server block begins with a zone, not with \"{\"";
                return Problem::fail(&next.place, why);
            }
            break;
        }
        if next.text == "}" {
            return Problem::fail(&next.place, "\"}\" without \"{\"");
        }
        let next = stream.next().expect("it was peeked at");
        let mut key = stream.expand(next);
        (begun, comma) = (true, None);
        if let Some(text) = key.text.strip_suffix(',') {
            key.text = text.to_owned();
            comma = Some(key.place.clone());
        }
        if !key.text.is_empty() {
            keys.push(key);
        }
    }
    match comma {
        Some(place) => Problem::fail(&place, "a zone is missing after the comma"),
        None => Ok(keys),
    }
}

/// The tokens of a snippet, without its braces.
fn snippet(stream: &mut Stream<'_>, key: &Token) -> Result<Vec<Token>, Problem> {
    let unclosed = || Problem::at(&key.place, format!("the snippet {} has no end", key.text));
    if stream.take("{").is_none() {
        let why = format!("the snippet {} has no \"{{\"", key.text);
        return Problem::fail(&key.place, why);
    }
    let (mut depth, mut body) = (1_usize, Vec::new());
    loop {
        let token = stream.next().ok_or_else(unclosed)?;
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(body);
        }
        body.push(token);
    }
}

/// The directives of a block. Without braces they go on to the end of the file.
fn contents(stream: &mut Stream<'_>, begin: &Location) -> Result<Vec<Directive>, Problem> {
    let braces = stream.take("{").is_some();
    let mut directives = Vec::new();
    loop {
        let Some(token) = stream.next() else {
            if braces {
                return Problem::fail(begin, "the server block has no end: \"}\" is missing");
            }
            return Ok(directives);
        };
        match token.text.as_str() {
            "}" => return Ok(directives),
            "{" => {
                return Problem::fail(&token.place, "\"{\" must be on the line of its plugin");
            }
            "import" => stream.import(&token.place)?,
            _ => directives.push(directive(stream, token, MAX_DEPTH)?),
        }
    }
}

/// The rest of a directive whose name is read.
fn directive(stream: &mut Stream<'_>, name: Token, depth: u32) -> Result<Directive, Problem> {
    let name = stream.expand(name);
    let (mut args, mut options) = (Vec::new(), Vec::new());
    while stream.same_line().is_some() {
        let token = stream.next().expect("it was peeked at");
        match token.text.as_str() {
            "}" => {
                return Problem::fail(&token.place, "\"}\" must be on a line of its own");
            }
            "{" if depth == 0 => {
                return Problem::fail(&token.place, "too many blocks in blocks");
            }
            "{" => {
                options = block(stream, &token.place, depth - 1)?;
                if let Some(more) = stream.same_line() {
                    let why = format!("{} stands behind \"}}\"", quoted(&more.text));
                    return Problem::fail(&more.place, why);
                }
                break;
            }
            _ => args.push(stream.expand(token)),
        }
    }
    Ok(Directive {
        name,
        args,
        options,
    })
}

/// Options up to the closing brace; the opening one is read.
fn block(stream: &mut Stream<'_>, begin: &Location, depth: u32) -> Result<Vec<Directive>, Problem> {
    let mut options = Vec::new();
    loop {
        let Some(token) = stream.next() else {
            return Problem::fail(begin, "\"}\" is missing for this \"{\"");
        };
        match token.text.as_str() {
            "}" => return Ok(options),
            "{" => {
                return Problem::fail(&token.place, "\"{\" must be on the line of its option");
            }
            "import" if token.first => stream.import(&token.place)?,
            _ => options.push(directive(stream, token, depth)?),
        }
    }
}
