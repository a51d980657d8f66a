//! What a text may look like, in the words of `apimachinery/pkg/util/validation` and `pkg/api/validate/content`.

use sluice_model::{is_label_of_any_length, is_subdomain};

/// Most bytes of all annotations, keys and values.
pub const ANNOTATIONS: usize = 256 * 1024;

/// The format of a text, or of the keys and values of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 1123, at most 63 bytes.
    Label,
    /// RFC 1035: a label that begins with a letter.
    Label1035,
    /// Labels joined by dots, at most 253 bytes.
    Subdomain,
    /// A part of a path: names of roles.
    Path,
    /// `example.com/name`.
    Qualified,
    /// Of a label.
    LabelValue,
    /// RFC 6335, section 5.1.
    PortName,
    /// The operator of a label selector.
    Operator,
    /// A map of labels.
    Labels,
    Annotations,
    /// A map whose keys are names of files.
    ConfigKeys,
    /// The requests and limits of a container.
    Resources,
}

impl Format {
    /// The format with this name in a table of rules.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "label" => Self::Label,
            "label-1035" => Self::Label1035,
            "subdomain" => Self::Subdomain,
            "qualified" => Self::Qualified,
            "operator" => Self::Operator,
            "labels" => Self::Labels,
            "annotations" => Self::Annotations,
            "config-keys" => Self::ConfigKeys,
            "resources" => Self::Resources,
            _ => return None,
        })
    }

    /// What is wrong with a text.
    #[must_use]
    pub fn problems(self, text: &str) -> Vec<String> {
        let length = text.len();
        let checks = match self {
            Self::Label if !text.is_empty() && text.contains('.') && is_subdomain(text) => {
                vec![(length > 63, LONG_LABEL), (true, "must not contain dots")]
            }
            Self::Label => vec![
                (length > 63, LONG_LABEL),
                (!is_label_of_any_length(text), LABEL),
            ],
            Self::Label1035 => {
                let has_letter = text.starts_with(|it: char| it.is_ascii_lowercase());
                vec![
                    (length > 63, LONG_LABEL),
                    (!is_label_of_any_length(text) || !has_letter, LABEL_1035),
                ]
            }
            Self::Subdomain => vec![
                (length > 253, "must be no more than 253 characters"),
                (!text.split('.').all(is_label_of_any_length), SUBDOMAIN),
            ],
            Self::Path => vec![
                (text == ".", "may not be '.'"),
                (text == "..", "may not be '..'"),
                (text.contains('/'), "may not contain '/'"),
                (text.contains('%'), "may not contain '%'"),
            ],
            Self::LabelValue => vec![
                (length > 63, "must be no more than 63 bytes"),
                (!text.is_empty() && !is_name(text), LABEL_VALUE),
            ],
            Self::Operator => {
                let known = ["In", "NotIn", "Exists", "DoesNotExist"];
                vec![(!known.contains(&text), "not a valid selector operator")]
            }
            Self::PortName => {
                let is_allowed =
                    |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
                let has_letter = text.bytes().any(|it| it.is_ascii_lowercase());
                vec![
                    (length > 15, "must be no more than 15 characters"),
                    (
                        text.is_empty() || !text.bytes().all(is_allowed),
                        PORT_LETTERS,
                    ),
                    (!has_letter, "must contain at least one letter (a-z)"),
                    (text.contains("--"), "must not contain consecutive hyphens"),
                    (
                        text.starts_with('-') || text.ends_with('-'),
                        "must not begin or end with a hyphen",
                    ),
                ]
            }
            Self::ConfigKeys => vec![
                (length > 253, "must be no more than 253 characters"),
                (text.is_empty() || !text.bytes().all(is_inside), CONFIG_KEY),
                (text == ".", "must not be '.'"),
                (text == "..", "must not be '..'"),
                (
                    text.starts_with("..") && text != "..",
                    "must not start with '..'",
                ),
            ],
            Self::Qualified => return qualified(text),
            Self::Labels | Self::Annotations | Self::Resources => Vec::new(),
        };
        let wrong = checks.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.map(|(_, why)| why.to_owned()).collect()
    }
}

/// What is wrong with the key of a label (`IsLabelKey`).
fn qualified(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut found = Vec::new();
    match prefix {
        Some("") => found.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let problems = Format::Subdomain.problems(prefix);
            found.extend(problems.iter().map(|it| format!("prefix part {it}")));
        }
        None => {}
    }
    for (is_wrong, why) in [
        (name.is_empty(), "must be non-empty"),
        (name.len() > 63, "must be no more than 63 bytes"),
        (!is_name(name), NAME),
    ] {
        if is_wrong {
            found.push(format!("name part {why}"));
        }
    }
    found
}

fn is_inside(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || b"-_.".contains(&letter)
}

/// The name part of a label.
fn is_name(text: &str) -> bool {
    let is_end = |it: char| it.is_ascii_alphanumeric();
    text.bytes().all(is_inside) && text.starts_with(is_end) && text.ends_with(is_end)
}

const PORT_LETTERS: &str = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
const LONG_LABEL: &str = "must be no more than 63 characters";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
