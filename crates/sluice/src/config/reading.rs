//! Reads flags and file into one configuration, and collects the problems of both.

use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use ipnet::IpNet;
use sluice_config::{GoDuration, KubeProxyConfiguration, Lines, Mode, Problem, decode, warnings};
use sluice_yaml::{escaped, quoted};

use crate::cli::NodeArgs;
use crate::flags;
use sluice_config::Invalid;

/// The problems found so far: a check goes on after each.
#[derive(Debug, Default)]
pub(super) struct Problems {
    usage: Vec<String>,
    file: Vec<String>,
}

impl Problems {
    /// Adds a problem of a flag.
    pub(super) fn usage(&mut self, problem: String) {
        self.usage.push(problem);
    }

    /// Adds a problem of the configuration file.
    pub(super) fn of_file(&mut self, file: &Path, problem: &Problem) {
        self.file.push(format!("{}: {problem}", shown(file)));
    }

    /// Parses the prefixes of one of our flags; `None` if it is not given.
    pub(super) fn prefixes(&mut self, flag: &str, words: Option<&[String]>) -> Option<Vec<IpNet>> {
        let words = words?.iter().map(|it| it.trim());
        let mut nets = Vec::new();
        for word in words.filter(|it| !it.is_empty()) {
            match word.parse() {
                Ok(net) => nets.push(net),
                Err(_) => self.usage(format!(
                    "{flag}: {} is no prefix such as 192.0.2.0/24",
                    quoted(word)
                )),
            }
        }
        Some(nets)
    }

    /// Parses the value of one of our flags; `None` if it is not given or, after `wrong`, not such a value.
    pub(super) fn parse<T: FromStr>(
        &mut self,
        flag: &str,
        text: Option<&str>,
        is_valid: impl FnOnce(&T) -> bool,
        wrong: &str,
    ) -> Option<T> {
        let text = text?;
        let value = text.parse().ok().filter(is_valid);
        if value.is_none() {
            self.usage(format!("{flag}: {} {wrong}", quoted(text)));
        }
        value
    }

    /// Parses a duration of one of our flags; `None` after a problem.
    pub(super) fn duration(&mut self, flag: &str, text: &str) -> Option<Duration> {
        let duration = text.parse::<GoDuration>();
        let duration = duration.and_then(|it| {
            let negative = || format!("{it} must not be negative");
            it.to_std().ok_or_else(negative)
        });
        self.keep(duration.map_err(|problem| format!("{flag}: {problem}")))
    }

    /// The value of a flag; `None` after adding the problem that it has.
    pub(super) fn keep<T>(&mut self, value: Result<T, String>) -> Option<T> {
        value.map_err(|problem| self.usage(problem)).ok()
    }

    /// The value if there is no problem, and without one there is a value. With a wrong flag the exit code is 2.
    pub(super) fn into_result<T>(self, value: Option<T>) -> anyhow::Result<T> {
        let Self { mut usage, file } = self;
        let exit_code = if usage.is_empty() { 1 } else { 2 };
        usage.extend(file);
        if !usage.is_empty() {
            bail!(Invalid {
                problems: usage,
                exit_code,
            });
        }
        Ok(value.expect("a configuration is missing only when there is a problem"))
    }
}

fn shown(file: &Path) -> String {
    escaped(&file.to_string_lossy())
}

/// A configuration with its defaults, before it is checked.
pub(super) struct Read {
    pub(super) config: KubeProxyConfiguration,
    /// Whether `ipvs.syncPeriod` is set, not the default.
    pub(super) has_ipvs_sync_period: bool,
    /// The lines of the file's fields.
    pub(super) lines: Lines,
    pub(super) warnings: Vec<String>,
}

impl NodeArgs {
    /// The content of `--config`, if it is given.
    pub(super) fn file(&self) -> Option<io::Result<Vec<u8>>> {
        self.config.as_ref().map(fs::read)
    }

    /// Decodes what [`Self::file`] is, and sets the fields of the flags.
    pub(super) fn read(
        &self,
        file: Option<io::Result<Vec<u8>>>,
        problems: &mut Problems,
    ) -> anyhow::Result<Read> {
        let mut read = match self.config.as_ref().zip(file) {
            Some((path, file)) => self.read_file(path, file, problems)?,
            None => self.read_flags(problems),
        };
        read.warnings.extend(self.flags.warnings());
        for problem in warnings(&read.config, &read.lines) {
            read.warnings.push(match &self.config {
                Some(file) if !self.flags.overrides(&problem.field) => {
                    format!("{}: {problem}", shown(file))
                }
                _ => flags::in_flags(&problem),
            });
        }
        Ok(read)
    }

    fn read_file(
        &self,
        file: &Path,
        bytes: io::Result<Vec<u8>>,
        problems: &mut Problems,
    ) -> anyhow::Result<Read> {
        let bytes = bytes.with_context(|| format!("read configuration {}", shown(file)))?;
        let mut read = Read {
            config: KubeProxyConfiguration::default(),
            has_ipvs_sync_period: false,
            lines: Lines::default(),
            warnings: Vec::new(),
        };
        match decode(&bytes) {
            Ok(decoded) => {
                read.config = decoded.config;
                read.lines = decoded.lines;
                read.warnings.extend(strict_warning(file, &decoded.ignored));
            }
            Err(wrong) => wrong.iter().for_each(|it| problems.of_file(file, it)),
        }
        let ignored = self.flags.ignored_beside_file();
        if !ignored.is_empty() {
            let ignored = ignored.join(", ");
            read.warnings
                .push(format!("ignored because --config is given: {ignored}"));
        }
        read.has_ipvs_sync_period = !read.config.ipvs.sync_period.is_zero();
        read.config.set_defaults();
        for problem in self.flags.apply_to_file(&mut read.config) {
            problems.usage(problem);
        }
        Ok(read)
    }

    fn read_flags(&self, problems: &mut Problems) -> Read {
        let mut config = KubeProxyConfiguration::defaulted();
        // A folder of manifests is no migration from kube-proxy, whose default mode is iptables.
        if self.is_standalone() {
            Mode::Nftables.name().clone_into(&mut config.mode);
        }
        for problem in self.flags.apply(&mut config) {
            problems.usage(problem);
        }
        Read {
            config,
            has_ipvs_sync_period: self.flags.has("ipvs-sync-period"),
            lines: Lines::default(),
            warnings: Vec::new(),
        }
    }
}

/// One warning for all that strict decoding refuses.
fn strict_warning(file: &Path, ignored: &[Problem]) -> Option<String> {
    let all: Vec<String> = ignored.iter().map(ToString::to_string).collect();
    let text = format!("{}: is not strictly valid: {}", shown(file), all.join("; "));
    (!all.is_empty()).then_some(text)
}
