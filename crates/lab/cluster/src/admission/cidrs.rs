//! ServiceCIDRs (`ValidateServiceCIDR`, `ValidateServiceCIDRUpdate` in `pkg/apis/networking/validation/validation.go`).

use ipnet::IpNet;
use serde_json::{Value, json};

const PATH: &str = "spec.cidrs";
const IMMUTABLE: &str = "field is immutable";

/// What is wrong, by field.
pub(super) type Problems = Vec<(String, String)>;

/// The ranges of a ServiceCIDR, or what is wrong with it; `old` is the version that it replaces.
pub(super) fn read(old: Option<&Value>, new: &Value) -> Result<Vec<IpNet>, Problems> {
    let (texts, problems) = (texts(new), old.map(|it| changed(&self::texts(it), new)));
    let problems = problems.unwrap_or_else(|| check(&texts, new));
    if !problems.is_empty() {
        return Err(problems);
    }
    // An earlier version stored ranges that are not canonical.
    Ok(texts.iter().filter_map(|it| it.parse().ok()).collect())
}

fn texts(cidr: &Value) -> Vec<&str> {
    let texts = cidr["spec"]["cidrs"].as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).collect()
}

fn check(texts: &[&str], new: &Value) -> Problems {
    let whole = |why: String| vec![(PATH.to_owned(), why)];
    if texts.is_empty() {
        return whole("Required value: at least one CIDR required".to_owned());
    }
    let spec = &new["spec"];
    if texts.len() > 2 {
        return whole(format!(
            "Invalid value: {spec}: may only hold up to 2 values"
        ));
    }
    let parsed: Vec<Option<IpNet>> = texts.iter().map(|it| it.parse().ok()).collect();
    let wrong = texts
        .iter()
        .zip(&parsed)
        .enumerate()
        .filter_map(|(at, (text, read))| {
            let why = match read {
                None => {
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()
                }
                Some(it) if it.trunc().to_string() == **text => return None,
                Some(it) => format!("must be in canonical form (\"{}\")", it.trunc()),
            };
            Some((
                format!("{PATH}[{at}]"),
                format!("Invalid value: {text:?}: {why}"),
            ))
        });
    let mut problems: Problems = wrong.collect();
    if let [Some(a), Some(b)] = parsed.as_slice()
        && a.addr().is_ipv4() == b.addr().is_ipv4()
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        problems.push((
            PATH.to_owned(),
            format!("Invalid value: {}: {why}", json!(texts)),
        ));
    }
    problems
}

/// A second range may be added, of the other family. Nothing else changes.
fn changed(old: &[&str], new: &Value) -> Problems {
    let texts = texts(new);
    let kept = old
        .iter()
        .zip(&texts)
        .enumerate()
        .filter(|(_, (old, new))| old != new);
    let wrong = kept.map(|(at, (_, new))| {
        (
            format!("{PATH}[{at}]"),
            format!("Invalid value: {new:?}: {IMMUTABLE}"),
        )
    });
    match (old.len(), texts.len()) {
        (a, b) if a == b => wrong.collect(),
        (1, 2) => wrong.chain(check(&texts, new)).collect(),
        _ => vec![(
            PATH.to_owned(),
            format!("Invalid value: {}: {IMMUTABLE}", json!(texts)),
        )],
    }
}
