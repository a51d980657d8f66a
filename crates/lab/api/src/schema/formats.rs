//! The `format`s of texts that a CustomResourceDefinition may demand (`apiextensions-apiserver/pkg/apiserver/validation/formats.go`,
//! `kube-openapi/pkg/validation/strfmt/default.go`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::civil::Date;
use regex::Regex;
use sluice_controller::Format;

use Check::{Own, Pattern};

/// A format that is checked.
#[derive(Clone, Debug)]
pub(crate) struct TextFormat {
    /// Its name in the schema: `int-or-string`.
    name: Box<str>,
    check: Check<Regex>,
}

/// How a text is checked: as a whole by an expression, or by a function.
#[derive(Clone, Copy, Debug)]
enum Check<P> {
    Pattern(P),
    Own(fn(&str) -> bool),
}

/// All formats but `password`, which any text has, and those of books and credit cards. Names are without `-`.
const KNOWN: [(&str, Check<&str>); 21] = [
    ("bsonobjectid", Pattern("[0-9a-fA-F]{24}")),
    ("uri", Own(is_uri)),
    ("email", Own(is_email)),
    ("hostname", Own(is_host_name)),
    ("ipv4", Own(|it| it.parse::<Ipv4Addr>().is_ok())),
    ("ipv6", Own(|it| it.parse::<Ipv6Addr>().is_ok())),
    ("cidr", Own(|it| Format::Cidr.problems(it).is_empty())),
    ("mac", Pattern(MAC)),
    ("uuid", Pattern(UUID)),
    ("uuid3", Pattern(UUID3)),
    ("uuid4", Pattern(UUID4)),
    ("uuid5", Pattern(UUID5)),
    ("ssn", Pattern("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")),
    ("hexcolor", Pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")),
    ("rgbcolor", Pattern(RGB)),
    ("byte", Own(|it| BASE64_STANDARD.decode(it).is_ok())),
    ("date", Own(is_date)),
    ("duration", Pattern(DURATION)),
    ("datetime", Own(is_date_time)),
    (
        "k8sshortname",
        Own(|it| Format::Label.problems(it).is_empty()),
    ),
    (
        "k8slongname",
        Own(|it| Format::Subdomain.problems(it).is_empty()),
    ),
];

const MAC: &str = "([0-9a-fA-F]{2}:){5}(([0-9a-fA-F]{2}:){2})?[0-9a-fA-F]{2}|([0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}|\
                   ([0-9a-fA-F]{4}\\.){2}[0-9a-fA-F]{4}";
const UUID: &str = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}";
const UUID3: &str = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}";
const UUID4: &str = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}";
const UUID5: &str = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}";
const RGB: &str = "rgb\\(([ \\t]*([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])[ \\t]*,){2}\
                   [ \\t]*([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])[ \\t]*\\)";

/// As `time.ParseDuration` of Go, or one number with a unit in words.
const DURATION: &str = "[-+]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)|[0-9]+[ \\t]*(ns|nanos?|nanoseconds?|us|µs|\
                        micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|\
                        days?|w|wks?|weeks?)";

impl TextFormat {
    /// `None`: this format is not checked.
    pub(super) fn of(name: &str) -> Option<Self> {
        let normal = name.replace('-', "");
        let (_, check) = KNOWN.iter().find(|(known, _)| *known == normal)?;
        Some(Self {
            name: name.into(),
            check: match check {
                Pattern(it) => Pattern(Regex::new(&format!("^(?:{it})$")).ok()?),
                Own(it) => Own(*it),
            },
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        match &self.check {
            Pattern(it) => it.is_match(text),
            Own(it) => it(text),
        }
    }
}

/// As `net/url.ParseRequestURI` of Go: absolute, or an absolute path.
fn is_uri(text: &str) -> bool {
    let has_scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|it: char| it.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it))
    });
    let is_clean = !text.contains(|it: char| it.is_control() || it == ' ');
    is_clean && (has_scheme || text.starts_with('/'))
}

/// `a@b`, or `Name <a@b>`.
fn is_email(text: &str) -> bool {
    let inner = text
        .split_once('<')
        .and_then(|(_, it)| it.strip_suffix('>'));
    let address = inner.unwrap_or(text);
    let is_word = |it: &str| {
        !it.is_empty() && !it.contains(|it: char| it.is_whitespace() || "<>@,;:".contains(it))
    };
    let dotted = |it: &str| it.split('.').all(is_word);
    address
        .rsplit_once('@')
        .is_some_and(|(user, host)| dotted(user) && dotted(host))
}

fn is_host_name(text: &str) -> bool {
    let is_label = |it: &str| {
        (1..=63).contains(&it.len())
            && it.chars().all(|it| it.is_alphanumeric() || it == '-')
            && !it.starts_with('-')
            && !it.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_name = !text.contains('.') || last.len() >= 2 && last.chars().all(char::is_alphabetic);
    text.len() <= 255 && is_name && text.split('.').all(is_label)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        let time = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$";
        Regex::new(time).expect("it is a constant")
    });
    let text = text.to_lowercase();
    let parts = text.split_once('t');
    parts.is_some_and(|(date, time)| is_date(date) && TIME.is_match(time))
}
