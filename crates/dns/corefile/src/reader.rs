//! Reading plugins: options, problems, notes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hickory_proto::rr::Name;

use crate::syntax::{Directive, Token};
use crate::values::{self, quoted, suggestion};
use crate::{Fallthrough, Location, Note, Problem, Sources};

/// Reads the plugins of all blocks, and collects problems and notes.
pub(crate) struct Reader<'a> {
    pub(crate) sources: &'a dyn Sources,
    pub(crate) problems: Vec<Problem>,
    pub(crate) notes: Vec<Note>,
    pub(crate) files: BTreeSet<PathBuf>,
}

/// The server block that a plugin stands in.
pub(crate) struct Scope {
    /// The zones of the block's keys.
    pub(crate) zones: Vec<Name>,
    /// The folder of `root`, which relative paths begin at.
    pub(crate) root: Option<PathBuf>,
}

impl Scope {
    /// A file that a plugin names.
    pub(crate) fn path(&self, word: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(word),
            None => PathBuf::from(word),
        }
    }
}

/// Why an option is refused.
pub(crate) enum Fault {
    /// The plugin has no such option.
    Unknown,
    /// The problem, without the names of plugin and option.
    Wrong(String),
}

impl<T: Into<String>> From<T> for Fault {
    fn from(message: T) -> Self {
        Self::Wrong(message.into())
    }
}

impl Reader<'_> {
    /// Adds a problem of a plugin or of its option.
    pub(crate) fn problem(&mut self, place: &Location, message: impl Into<String>) {
        self.problems.push(Problem::at(place, message));
    }

    /// Says that something has no effect, unless it was said before.
    pub(crate) fn note(&mut self, place: &Location, message: impl Into<String>) {
        let message = message.into();
        if self.notes.iter().all(|it| it.message != message) {
            self.notes.push(Note::at(place, message));
        }
    }

    /// The value, or a problem of the plugin and the default in its place.
    pub(crate) fn or<T>(&mut self, plugin: &Directive, value: Result<T, String>, default: T) -> T {
        value.unwrap_or_else(|why| {
            self.problem(&plugin.name.place, format!("{}: {why}", plugin.name.text));
            default
        })
    }

    /// Hands each option of a plugin to `read`. `known` are their names, for suggestions.
    pub(crate) fn options(
        &mut self,
        plugin: &Directive,
        known: &[&str],
        mut read: impl FnMut(&mut Self, &Directive) -> Result<(), Fault>,
    ) {
        for option in &plugin.options {
            let (plugin, name) = (&plugin.name.text, &option.name.text);
            let message = match read(self, option) {
                Ok(()) if option.options.is_empty() => continue,
                Ok(()) => format!("{plugin}: {name}: has no options of its own"),
                Err(Fault::Wrong(why)) => format!("{plugin}: {name}: {why}"),
                Err(Fault::Unknown) => {
                    let similar = suggestion(name, known.iter().copied());
                    format!("{plugin}: unknown option {}{similar}", quoted(name))
                }
            };
            self.problem(&option.name.place, message);
        }
    }

    /// Hands the only option that a plugin has to `read`.
    pub(crate) fn option(
        &mut self,
        plugin: &Directive,
        known: &str,
        mut read: impl FnMut(&Directive) -> Result<(), String>,
    ) {
        self.options(plugin, &[known], |_, option| {
            if option.name.text == known {
                Ok(read(option)?)
            } else {
                Err(Fault::Unknown)
            }
        });
    }

    /// Refuses every option of a plugin that has none.
    pub(crate) fn no_options(&mut self, plugin: &Directive) {
        self.options(plugin, &[], |_, _| Err(Fault::Unknown));
    }

    /// The text of a file that a plugin names.
    pub(crate) fn read(&mut self, path: &Path) -> Result<String, String> {
        let text = self.sources.read(path);
        self.files.insert(path.to_owned());
        text.map_err(|why| format!("{}: {why}", quoted(&path.to_string_lossy())))
    }

    /// The zones of a plugin: its arguments, else the zones of the block.
    pub(crate) fn zones(
        &mut self,
        plugin: &Directive,
        words: &[Token],
        scope: &Scope,
    ) -> Vec<Name> {
        if words.is_empty() {
            return scope.zones.clone();
        }
        self.or(plugin, zones(words), Vec::new())
    }
}

pub(crate) fn zones(words: &[Token]) -> Result<Vec<Name>, String> {
    let zones = words.iter().map(|it| values::zones(&it.text));
    Ok(zones.collect::<Result<Vec<_>, _>>()?.concat())
}

impl Directive {
    /// Checks that there is no argument.
    pub(crate) fn none(&self) -> Result<(), String> {
        match self.args.first() {
            None => Ok(()),
            Some(more) => Err(format!("takes no argument, {} is one", quoted(&more.text))),
        }
    }

    /// An option without arguments, which is set.
    pub(crate) fn flag(&self) -> Result<bool, String> {
        self.none().map(|()| true)
    }

    /// All arguments as texts.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.args.iter().map(|it| it.text.as_str()).collect()
    }

    /// The only argument.
    pub(crate) fn one(&self) -> Result<&str, String> {
        match &*self.args {
            [word] => Ok(&word.text),
            [] => Err("an argument is missing".to_owned()),
            [_, more, ..] => Err(format!(
                "takes one argument, {} is one more",
                quoted(&more.text)
            )),
        }
    }

    /// At most one argument.
    pub(crate) fn optional(&self) -> Result<Option<&str>, String> {
        match &*self.args {
            [] => Ok(None),
            _ => self.one().map(Some),
        }
    }

    /// At least one argument.
    pub(crate) fn some(&self) -> Result<&[Token], String> {
        match &*self.args {
            [] => Err("an argument is missing".to_owned()),
            words => Ok(words),
        }
    }

    /// Arguments as text; more than `most` are an error.
    pub(crate) fn texts(&self, most: usize) -> Result<Vec<&str>, String> {
        match self.args.get(most) {
            Some(more) => Err(format!(
                "takes at most {most} arguments, {} is one more",
                quoted(&more.text)
            )),
            None => Ok(self.words()),
        }
    }

    /// Exactly one argument, a duration.
    pub(crate) fn duration(&self) -> Result<Duration, String> {
        values::duration(self.one()?)
    }

    /// The zones of `fallthrough`: its arguments, else the root.
    pub(crate) fn fallthrough(&self) -> Result<Fallthrough, String> {
        let zones = match &*self.args {
            [] => vec![Name::root()],
            words => zones(words)?,
        };
        Ok(Fallthrough { zones })
    }
}
