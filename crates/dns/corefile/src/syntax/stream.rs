//! The tokens of a Corefile, with imports put in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::glob;
use super::token::{self, Token};
use crate::values::quoted;
use crate::{Location, Problem, Sources};

/// Imports in one Corefile, of snippets and of files each; CoreDNS's bound.
const MAX_IMPORTS: u32 = 1000;
/// Tokens in one Corefile after its imports. The API server bounds a ConfigMap to 1 MiB of text.
const MAX_TOKENS: usize = 1 << 20;

/// The tokens that are not read yet.
pub(super) struct Stream<'a> {
    /// The next token is the last.
    rest: Vec<Token>,
    snippets: BTreeMap<String, Vec<Token>>,
    sources: &'a dyn Sources,
    snippet_imports: u32,
    file_imports: u32,
    /// Tokens that imports have put in so far.
    imported: usize,
    /// Files that were imported.
    pub(super) files: BTreeSet<PathBuf>,
    /// Patterns that match no file, and where they stand.
    pub(super) unmatched: Vec<(Location, String)>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(mut tokens: Vec<Token>, sources: &'a dyn Sources) -> Self {
        tokens.reverse();
        Self {
            rest: tokens,
            snippets: BTreeMap::new(),
            sources,
            snippet_imports: 0,
            file_imports: 0,
            imported: 0,
            files: BTreeSet::new(),
            unmatched: Vec::new(),
        }
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.rest.last()
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        self.rest.pop()
    }

    /// The next token if it is this text.
    pub(super) fn take(&mut self, text: &str) -> Option<Token> {
        self.rest.pop_if(|it| it.text == text)
    }

    /// The next token if it is on the line of the one before.
    pub(super) fn same_line(&self) -> Option<&Token> {
        self.peek().filter(|it| !it.first)
    }

    /// The token's text with its environment variables.
    pub(super) fn expand(&self, mut token: Token) -> Token {
        let variable = |name: &str| self.sources.variable(name).unwrap_or_default();
        token.text = token::expand(&token.text, &variable);
        token
    }

    /// Keeps the tokens of a snippet.
    pub(super) fn define(
        &mut self,
        name: &str,
        at: &Location,
        body: Vec<Token>,
    ) -> Result<(), Problem> {
        match self.snippets.insert(name.to_owned(), body) {
            None => Ok(()),
            Some(_) => Problem::fail(at, format!("the snippet ({name}) stands twice")),
        }
    }

    /// Puts the tokens of a snippet or of files in the place of `import` and its argument.
    pub(super) fn import(&mut self, import: &Location) -> Result<(), Problem> {
        let fault = |message: String| Problem::at(import, format!("import: {message}"));
        let wanted = match self.same_line() {
            Some(_) => self.next().map(|it| self.expand(it).text),
            None => None,
        };
        let Some(wanted) = wanted.filter(|it| !it.is_empty()) else {
            return Err(fault("the name of a snippet or file is missing".to_owned()));
        };
        if let Some(more) = self.same_line() {
            let more = quoted(&more.text);
            return Err(fault(format!("takes one argument, {more} is one more")));
        }
        let body = match self.snippets.get(&wanted) {
            Some(body) => {
                let body = body.clone();
                self.snippet_imports += 1;
                body
            }
            None => {
                self.file_imports += 1;
                self.files(&wanted, import)?
            }
        };
        self.imported += body.len();
        if self.snippet_imports.max(self.file_imports) > MAX_IMPORTS || self.imported > MAX_TOKENS {
            return Err(fault(format!(
                "more than {MAX_IMPORTS} imports or {MAX_TOKENS} words: a snippet or file imports itself"
            )));
        }
        self.rest.extend(body.into_iter().rev());
        if let Some(next) = self.rest.last_mut() {
            next.first = true;
        }
        Ok(())
    }

    /// The tokens of all files that a path or pattern names. A path is relative to the file that imports.
    fn files(&mut self, wanted: &str, import: &Location) -> Result<Vec<Token>, Problem> {
        let fault = |message: String| Problem::at(import, format!("import: {message}"));
        if glob::too_many_wildcards(wanted) {
            let wanted = quoted(wanted);
            return Err(fault(format!(
                "{wanted}: a pattern has at most one * and one ?"
            )));
        }
        let folder = Path::new(&*import.file).parent().unwrap_or(Path::new(""));
        let path = folder.join(wanted);
        let pattern = glob::is_pattern(wanted);
        let paths = if pattern {
            glob::matches(&path, self.sources)
                .map_err(|why| fault(format!("{}: {why}", quoted(wanted))))?
        } else {
            vec![path]
        };
        if paths.is_empty() {
            self.unmatched.push((import.clone(), wanted.to_owned()));
        }
        let mut body = Vec::new();
        for path in paths {
            let name = path.to_string_lossy();
            let text = self.sources.read(&path).map_err(|why| {
                let no_snippet = if pattern {
                    ""
                } else {
                    "no snippet and no file "
                };
                fault(format!("{no_snippet}{}: {why}", quoted(&name)))
            })?;
            body.extend(token::tokens(&Arc::from(&*name), &text)?);
            self.files.insert(path);
        }
        Ok(body)
    }
}
