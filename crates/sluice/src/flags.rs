//! The flags of kube-proxy: one table makes parser, help and meaning.
//!
//! Each flag sets a field of `KubeProxyConfiguration`, so a file and flags mean the same. A flag
//! that is given twice counts the last time; lists grow, as in kube-proxy.

mod api;
mod conntrack;
mod data_plane;
mod ignored;
mod ipvs;
mod logging;
mod servers;
mod value;

use std::collections::BTreeMap;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use sluice_config::{KubeProxyConfiguration, Problem};

pub(crate) use value::{boolean, port_range};

/// The value name of a flag that may stand alone, which means `true`.
const BOOL: &str = "BOOL";

/// A flag and the fields of the configuration it may set.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Without the dashes.
    pub(crate) name: &'static str,
    alias: Option<&'static str>,
    short: Option<char>,
    /// Name of the value in help; [`BOOL`] may be left out.
    value: &'static str,
    heading: Heading,
    help: &'static str,
    /// Paths in the configuration; problems and warnings of a field below one name the flag instead.
    fields: &'static [&'static str],
    set: Set,
}

type Set = fn(&mut KubeProxyConfiguration, &str) -> Result<(), String>;

/// Where help shows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// Flags that kube-proxy does not have.
    Sluice,
    /// Access to the API server.
    Api,
    /// Contents of the rules.
    DataPlane,
    /// The process and its servers.
    Health,
    /// Connection tracking.
    Conntrack,
    /// The ipvs mode.
    Ipvs,
    /// The ebpf mode.
    Ebpf,
    /// The DNS server inside the agent.
    Dns,
    /// The log.
    Logging,
    /// Without effect.
    Ignored,
}

impl Heading {
    /// The heading in the help text.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Sluice => "Sluice",
            Self::Api => "Kubernetes API",
            Self::DataPlane => "Data plane",
            Self::Health => "Process, health and metrics",
            Self::Conntrack => "Conntrack",
            Self::Ipvs => "IPVS mode",
            Self::Ebpf => "eBPF mode",
            Self::Dns => "Node-local DNS",
            Self::Logging => "Logging",
            Self::Ignored => "Accepted and ignored",
        }
    }
}

/// Every flag. The mode comes first, because later flags set the section of that mode.
fn all() -> impl Iterator<Item = &'static Flag> {
    let tables = [
        data_plane::FLAGS,
        api::FLAGS,
        servers::FLAGS,
        conntrack::FLAGS,
        ipvs::FLAGS,
        logging::FLAGS,
        ignored::FLAGS,
    ];
    tables.into_iter().flatten()
}

impl Flag {
    /// A flag without effect.
    const fn new(heading: Heading, name: &'static str, value: &'static str) -> Self {
        Self {
            name,
            alias: None,
            short: None,
            value,
            heading,
            help: "",
            fields: &[],
            set: |_, _| Ok(()),
        }
    }

    const fn alias(self, alias: &'static str) -> Self {
        let alias = Some(alias);
        Self { alias, ..self }
    }

    const fn short(self, short: char) -> Self {
        let short = Some(short);
        Self { short, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }

    const fn set(self, set: Set) -> Self {
        Self { set, ..self }
    }

    /// Whether the flag counts although there is a configuration file.
    fn overrides_file(&self) -> bool {
        self.heading == Heading::Logging || self.name == "hostname-override"
    }

    /// Whether the flag sets this field or one above it.
    fn sets(&self, field: &str) -> bool {
        let below = |path: &&str| {
            let rest = field.strip_prefix(*path);
            rest.is_some_and(|it| it.is_empty() || it.starts_with(['.', '[']))
        };
        self.fields.iter().any(below)
    }

    fn argument(&self) -> Arg {
        let arg = Arg::new(self.name)
            .long(self.name)
            .short(self.short)
            .visible_aliases(self.alias)
            .help(StyledStr::from(self.help))
            .help_heading(self.heading.title())
            .value_name(self.value)
            .action(ArgAction::Append)
            .allow_negative_numbers(true);
        if self.value != BOOL {
            return arg;
        }
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    }
}

/// The flags of kube-proxy on the command line, with their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(Vec<Given>);

/// A flag with its values.
type Given = (&'static Flag, Vec<String>);

impl Flags {
    /// Whether a flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(flag, _)| flag.name == name)
    }

    /// Every flag with its values, by name.
    pub(crate) fn given(&self) -> BTreeMap<String, String> {
        let given = self.0.iter();
        given
            .map(|(flag, values)| (flag.name.to_owned(), values.join(",")))
            .collect()
    }

    /// Whether a flag was given that sets a field that begins with `field`.
    pub(crate) fn has_for(&self, field: &str) -> bool {
        let mut fields = self.0.iter().flat_map(|(flag, _)| flag.fields);
        fields.any(|it| it.starts_with(field))
    }

    /// The flags that a configuration file overrides.
    pub(crate) fn ignored_beside_file(&self) -> Vec<String> {
        let ignored = self.0.iter().filter(|(flag, _)| !flag.overrides_file());
        let names = ignored.map(|(flag, _)| format!("--{}", flag.name));
        names.collect()
    }

    /// The flags that count beside a configuration file.
    fn beside_file(&self) -> impl Iterator<Item = &Given> {
        self.0.iter().filter(|(flag, _)| flag.overrides_file())
    }

    /// Sets the fields of all flags; returns what cannot be read.
    pub(crate) fn apply(&self, config: &mut KubeProxyConfiguration) -> Vec<String> {
        apply(self.0.iter(), config)
    }

    /// Sets the fields of the flags that count beside a configuration file.
    pub(crate) fn apply_to_file(&self, config: &mut KubeProxyConfiguration) -> Vec<String> {
        apply(self.beside_file(), config)
    }

    /// Whether a flag overrides a field of the configuration file.
    pub(crate) fn overrides(&self, field: &str) -> bool {
        self.beside_file().any(|(flag, _)| flag.sets(field))
    }

    /// Warnings about flags that set no field; fields have warnings of their own.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let without_field = self.0.iter().filter(|(flag, _)| flag.fields.is_empty());
        let text = |flag: &Flag| match flag.heading {
            Heading::Ignored => format!("--{}: is ignored: it has no effect", flag.name),
            _ => {
                let instead = flag.name.replace("port", "bind-address");
                format!("--{}: is deprecated: use --{instead}", flag.name)
            }
        };
        without_field.map(|(flag, _)| text(flag)).collect()
    }
}

fn apply<'f>(
    given: impl Iterator<Item = &'f Given>,
    config: &mut KubeProxyConfiguration,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (flag, values) in given {
        for value in values {
            if let Err(problem) = (flag.set)(config, value) {
                problems.push(format!("--{}: {problem}", flag.name));
            }
        }
    }
    problems
}

/// A problem of the configuration, named by flag.
pub(crate) fn in_flags(problem: &Problem) -> String {
    match all().find(|it| it.sets(&problem.field)) {
        Some(flag) => format!(
            "--{}: {}",
            flag.name,
            sluice_yaml::escaped(&problem.message)
        ),
        None => problem.to_string(),
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = all().filter_map(|flag| {
            let values = matches.get_many::<String>(flag.name)?;
            Some((flag, values.cloned().collect()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(all().map(Flag::argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests;
