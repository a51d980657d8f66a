//! What a text may look like, in the words of `apimachinery/pkg/util/validation` and `pkg/api/validate/content`.

use std::net::IpAddr;

use ipnet::IpNet;
use sluice_model::label::{SUBDOMAIN, key_problems, subdomain_problems, value_problems};
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
    /// The value of a label: empty, or at most 63 bytes.
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
    /// A key of a ConfigMap or a Secret.
    ConfigKey,
    /// The requests and limits of a container.
    Resources,
    /// As [`Resources`](Self::Resources), of a whole pod.
    PodResources,
    /// The quantities of a quota.
    Quota,
    /// A limit of a limit range.
    Limits,
    /// An address that endpoints may have.
    EndpointIp,
    /// The name of an environment variable: printable ASCII without `=`.
    EnvName,
    /// The name of a header of HTTP.
    Header,
    /// The number or the name of a port.
    Port,
    /// Permissions of a file.
    Mode,
    /// A number that is not negative, or a percentage of at most 100.
    Share,
    /// An address.
    Ip,
    /// A range of addresses.
    Cidr,
    /// A path without `..`.
    Forward,
    /// A path below a folder: relative, without `..`.
    Below,
    /// As [`Below`](Self::Below), and the first name does not begin with `..`: kubelet has such names in volumes.
    Local,
    /// A host name, or `*.` and one.
    Wildcard,
    /// `DOMAIN/PATH`: who acts upon an object.
    DomainPath,
    /// `DOMAIN/NAME` of who signs certificates.
    Signer,
    /// A request for a certificate in PEM, in base64.
    Request,
    /// The `apiVersion` of an object.
    ApiVersion,
    /// The `kind` of an object.
    Kind,
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
            "config-key" => Self::ConfigKey,
            "env-name" => Self::EnvName,
            "header" => Self::Header,
            "port" => Self::Port,
            "port-name" => Self::PortName,
            "label-value" => Self::LabelValue,
            "path-part" => Self::Path,
            "mode" => Self::Mode,
            "share" => Self::Share,
            "ip" => Self::Ip,
            "cidr" => Self::Cidr,
            "forward" => Self::Forward,
            "below" => Self::Below,
            "local" => Self::Local,
            "wildcard" => Self::Wildcard,
            "domain-path" => Self::DomainPath,
            "signer" => Self::Signer,
            "request" => Self::Request,
            "resources" => Self::Resources,
            "pod-resources" => Self::PodResources,
            "quota" => Self::Quota,
            "limits" => Self::Limits,
            "endpoint-ip" => Self::EndpointIp,
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
            Self::Subdomain => return subdomain_problems(text),
            Self::Path => vec![
                (text == ".", "may not be '.'"),
                (text == "..", "may not be '..'"),
                (text.contains('/'), "may not contain '/'"),
                (text.contains('%'), "may not contain '%'"),
            ],
            Self::LabelValue => return value_problems(text),
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
            Self::ConfigKeys | Self::ConfigKey => vec![
                (length > 253, "must be no more than 253 characters"),
                (text.is_empty() || !text.bytes().all(is_inside), CONFIG_KEY),
                (text == ".", "must not be '.'"),
                (text == "..", "must not be '..'"),
                (
                    text.starts_with("..") && text != "..",
                    "must not start with '..'",
                ),
            ],
            Self::EnvName => {
                let is_allowed = |it: u8| (b' '..=b'~').contains(&it) && it != b'=';
                vec![
                    (
                        text.is_empty(),
                        "environment variable name must be non-empty",
                    ),
                    (!text.bytes().all(is_allowed), ENV_NAME),
                ]
            }
            Self::Header => {
                let is_allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
                vec![(text.is_empty() || !text.bytes().all(is_allowed), HEADER)]
            }
            Self::Port => match text.parse::<i64>() {
                Ok(it) => vec![(
                    !(1..=65_535).contains(&it),
                    "must be between 1 and 65535, inclusive",
                )],
                Err(_) => return Self::PortName.problems(text),
            },
            Self::Mode => {
                let is_allowed = text.parse().is_ok_and(|it| (0..=0o777).contains(&it));
                vec![(!is_allowed, MODE)]
            }
            Self::Share => share(text),
            Self::Ip => match text.parse::<IpAddr>() {
                Ok(it) => vec![(is_mapped(it), "must not be an IPv4-mapped IPv6 address")],
                Err(_) if plain(text).parse::<IpAddr>().is_ok() => {
                    vec![(true, "must not have leading 0s")]
                }
                Err(_) => vec![(true, IP)],
            },
            Self::EndpointIp => match text.parse::<IpAddr>() {
                Ok(it) if !is_mapped(it) => return endpoint(it),
                _ if plain(text).parse::<IpAddr>().is_ok() => return Self::Ip.problems(text),
                _ => vec![(true, IP), (true, "must be a valid IP address")],
            },
            Self::Cidr => match text.parse::<IpNet>() {
                Ok(it) if is_mapped(it.addr()) => {
                    vec![(true, "must not have an IPv4-mapped IPv6 address")]
                }
                Ok(it) => vec![(
                    it != it.trunc(),
                    "must not have bits set beyond the prefix length",
                )],
                Err(_) if plain(text).parse::<IpNet>().is_ok() => {
                    vec![(true, "must not have leading 0s in IP or prefix length")]
                }
                Err(_) => vec![(true, CIDR)],
            },
            Self::Forward => vec![(has_step_back(text), "must not contain '..'")],
            Self::Below => below(text).into(),
            Self::Local => {
                let [absolute, back] = below(text);
                let is_reserved = text.starts_with("..") && !has_step_back(text);
                vec![absolute, back, (is_reserved, "must not start with '..'")]
            }
            Self::Wildcard => match text.strip_prefix("*.") {
                Some(rest) => vec![
                    (length > 253, LONG_SUBDOMAIN),
                    (!is_subdomain(rest), WILDCARD),
                ],
                None if text.contains('*') => vec![(true, WILDCARD)],
                None if text.parse::<IpAddr>().is_ok() => {
                    vec![(true, "must be a DNS name, not an IP address")]
                }
                None => return Self::Subdomain.problems(text),
            },
            Self::DomainPath => match text.split_once('/') {
                Some((host, path)) if !host.is_empty() && !path.is_empty() => {
                    return subdomain_problems(host);
                }
                _ => vec![(true, DOMAIN_PATH)],
            },
            Self::Signer => return signer(text),
            Self::ApiVersion if text.matches('/').count() > 1 => {
                return vec![format!("unexpected GroupVersion string: {text}")];
            }
            Self::ApiVersion => vec![(text.is_empty(), "must not be empty")],
            Self::Kind if text.is_empty() => vec![(true, "must not be empty")],
            Self::Kind => {
                let problems = Self::Label1035.problems(&text.to_lowercase());
                let mixed = "may have mixed case, but should otherwise match";
                return problems.iter().map(|it| format!("{mixed}: {it}")).collect();
            }
            Self::Qualified => return key_problems(text),
            Self::Labels
            | Self::Annotations
            | Self::Resources
            | Self::PodResources
            | Self::Quota
            | Self::Limits
            | Self::Request => Vec::new(),
        };
        let wrong = checks.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.map(|(_, why)| why.to_owned()).collect()
    }
}

/// `ValidatePositiveIntOrPercent` and `IsNotMoreThan100Percent` of `pkg/apis/apps/validation`.
fn share(text: &str) -> Vec<(bool, &'static str)> {
    if let Ok(number) = text.parse::<i64>() {
        return vec![(number < 0, "must be greater than or equal to 0")];
    }
    let digits = text.strip_suffix('%').unwrap_or_default();
    let is_percentage = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    let is_large = is_percentage && digits.parse::<u32>().is_ok_and(|it| it > 100);
    vec![
        (!is_percentage, PERCENTAGE),
        (is_large, "must not be greater than 100%"),
    ]
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some())
}

/// An IPv4 address or range without the zeros before its numbers, which Kubernetes read before 1.36
/// (`ParseIPSloppy`): `010.0.0.1` is `10.0.0.1`.
fn plain(text: &str) -> String {
    if text.contains(':') {
        return text.to_owned();
    }
    let is_end = |it: char| it == '.' || it == '/';
    let numbers = text.split_inclusive(is_end).map(|part| {
        let number = part.trim_end_matches(is_end);
        let end = &part[number.len()..];
        let rest = number.trim_start_matches('0');
        let number = if rest.is_empty() && !number.is_empty() {
            "0"
        } else {
            rest
        };
        format!("{number}{end}")
    });
    numbers.collect()
}

/// `ValidateEndpointIP` of `pkg/apis/core/validation`.
fn endpoint(address: IpAddr) -> Vec<String> {
    let (is_local, is_multicast) = match address {
        IpAddr::V4(it) => (it.is_link_local(), it.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(it) => (
            it.is_unicast_link_local(),
            it.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    let unspecified = format!("may not be unspecified ({address})");
    let checks = [
        (address.is_unspecified(), &*unspecified),
        (
            address.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            is_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            is_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ];
    let wrong = checks.into_iter().filter(|(is_wrong, _)| *is_wrong);
    wrong.map(|(_, why)| why.to_owned()).collect()
}

fn has_step_back(path: &str) -> bool {
    path.split('/').any(|it| it == "..")
}

fn below(path: &str) -> [(bool, &'static str); 2] {
    [
        (path.starts_with('/'), "must be a relative path"),
        (has_step_back(path), "must not contain '..'"),
    ]
}

/// `ValidateSignerName` of `pkg/apis/core/validation`.
fn signer(text: &str) -> Vec<String> {
    let Some((domain, name)) = text.split_once('/') else {
        return vec![
            "must be a fully qualified domain and path of the form \"example.com/signer-name\""
                .to_owned(),
        ];
    };
    let mut found = Format::Subdomain.problems(domain);
    if !domain.contains('.') {
        found.push("should be a domain with at least two segments separated by dots".to_owned());
    }
    if name.is_empty() || !name.split('.').all(is_label_of_any_length) {
        found.push(SUBDOMAIN.to_owned());
    }
    found
}

fn is_inside(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || b"-_.".contains(&letter)
}

const PORT_LETTERS: &str = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
const ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
    for validation is '[-A-Za-z0-9]+')";
const DOMAIN_PATH: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
pub(crate) const PERCENTAGE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
    regex used for validation is '[0-9]+%')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
    consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
    '*.example.com', regex used for validation is \
    '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LONG_SUBDOMAIN: &str = "must be no more than 253 characters";
const LONG_LABEL: &str = "must be no more than 63 characters";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
