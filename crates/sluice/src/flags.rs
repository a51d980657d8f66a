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

pub(crate) use value::boolean;

/// A flag and the fields of the configuration it may set.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Without the dashes.
    pub(crate) name: &'static str,
    /// Another name, or empty.
    alias: &'static str,
    short: Option<char>,
    /// What the value is called in help; `None` for a flag that may stand alone.
    value: Option<&'static str>,
    heading: Heading,
    help: &'static str,
    /// Paths; problems and warnings of a field below one name the flag instead.
    fields: &'static [&'static str],
    set: fn(&mut KubeProxyConfiguration, &str) -> Result<(), String>,
}

/// Where help shows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// What is special to Sluice.
    Sluice,
    /// How to reach the API server.
    Api,
    /// What the rules are made of.
    DataPlane,
    /// Servers of the process.
    Health,
    /// Connection tracking.
    Conntrack,
    /// The ipvs mode.
    Ipvs,
    /// The log.
    Logging,
    /// Without effect.
    Ignored,
}

impl Heading {
    /// As in help.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Sluice => "Sluice",
            Self::Api => "Kubernetes API",
            Self::DataPlane => "Data plane",
            Self::Health => "Process, health and metrics",
            Self::Conntrack => "Conntrack",
            Self::Ipvs => "IPVS mode",
            Self::Logging => "Logging",
            Self::Ignored => "Accepted and ignored",
        }
    }
}

/// Every flag. The mode is the first: others set the section of the mode.
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
    /// Has no effect and no value.
    const NOTHING: Self = Self {
        name: "",
        alias: "",
        short: None,
        value: None,
        heading: Heading::Ignored,
        help: "",
        fields: &[],
        set: |_, _| Ok(()),
    };

    /// Whether the flag counts although there is a configuration file.
    fn overrides_file(&self) -> bool {
        self.heading == Heading::Logging || self.name == "hostname-override"
    }

    fn argument(&self) -> Arg {
        let arg = Arg::new(self.name)
            .long(self.name)
            .help(StyledStr::from(self.help))
            .help_heading(self.heading.title())
            .action(ArgAction::Append)
            .allow_negative_numbers(true);
        let arg = match self.alias {
            "" => arg,
            alias => arg.visible_alias(alias),
        };
        let arg = match self.short {
            None => arg,
            Some(short) => arg.short(short),
        };
        match self.value {
            Some(value) => arg.value_name(value),
            None => arg
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
        }
    }
}

/// The flags of kube-proxy that were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(Vec<(&'static Flag, Vec<String>)>);

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

    /// Whether a flag about one of these fields was given.
    pub(crate) fn are_about(&self, field: &str) -> bool {
        let mut fields = self.0.iter().flat_map(|(flag, _)| flag.fields);
        fields.any(|it| it.starts_with(field))
    }

    /// The names of those that a configuration file makes void.
    pub(crate) fn void_beside_file(&self) -> Vec<String> {
        let void = self.0.iter().filter(|(flag, _)| !flag.overrides_file());
        void.map(|(flag, _)| format!("--{}", flag.name)).collect()
    }

    /// Sets what was given; says what cannot be read.
    pub(crate) fn apply(&self, config: &mut KubeProxyConfiguration) -> Vec<String> {
        apply(self.0.iter(), config)
    }

    /// Sets of what was given what counts beside a configuration file.
    pub(crate) fn apply_to_file(&self, config: &mut KubeProxyConfiguration) -> Vec<String> {
        apply(
            self.0.iter().filter(|(flag, _)| flag.overrides_file()),
            config,
        )
    }

    /// Whether a field of a file was overridden.
    pub(crate) fn overrides(&self, field: &str) -> bool {
        let mut given = self.0.iter().filter(|(flag, _)| flag.overrides_file());
        given.any(|(flag, _)| flag.is_about(field))
    }

    /// Warnings of flags that no field has a warning for.
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
    given: impl Iterator<Item = &'f (&'static Flag, Vec<String>)>,
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

impl Flag {
    fn is_about(&self, field: &str) -> bool {
        let below = |path: &&str| {
            let rest = field.strip_prefix(*path);
            rest.is_some_and(|it| it.is_empty() || it.starts_with(['.', '[']))
        };
        self.fields.iter().any(below)
    }
}

/// A problem in the words of the command line.
pub(crate) fn in_flags(problem: &Problem) -> String {
    match all().find(|it| it.is_about(&problem.field)) {
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
