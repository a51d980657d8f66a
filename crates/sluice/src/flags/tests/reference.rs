//! `docs/reference/configuration.md`: every field of the configuration file, with the flag that sets it.

use std::fmt::Write as _;

use serde_json::Value;
use sluice_config::{IGNORED, KubeProxyConfiguration};
use sluice_scenarios::golden;

use crate::flags::all;
use crate::pages::tests::{escape, folder};

const HEAD: &str = "\
# Configuration

`sluice proxy --config FILE` reads kube-proxy's configuration file: `KubeProxyConfiguration` of
`kubeproxy.config.k8s.io/v1alpha1`, as YAML or JSON. Beside a file, of kube-proxy's flags only `--hostname-override` and
those of logging count, as with kube-proxy. `sluice proxy --write-config-to FILE` writes the file that
the flags mean. A field that is unknown, or has a value of another type, is reported with its line.

What Sluice has beyond kube-proxy has [flags of its own](commands.md#sluice-proxy) and no field. A test compares this
page with the code.

| field | default | flag | meaning |
| --- | --- | --- | --- |
";

/// Fields that no flag sets and that are not ignored.
const WITHOUT_FLAG: [(&str, &str); 2] = [("apiVersion", "Of this file"), ("kind", "Of this file")];

#[test]
fn golden_page_of_the_configuration() {
    let default = KubeProxyConfiguration::defaulted();
    let default = serde_json::to_value(default).expect("plain values and text keys");
    let mut fields = Vec::new();
    leaves(String::new(), &default, &mut fields);
    let mut page = HEAD.to_owned();
    for (field, default) in fields {
        let flag = all().find(|it| it.sets(&field));
        let below = |path: &str| field == path || field.starts_with(&format!("{path}."));
        let ignored = IGNORED.iter().find(|it| below(it.0));
        let known = WITHOUT_FLAG.iter().find(|it| it.0 == field);
        let meaning = match (ignored, flag, known) {
            (Some((_, why)), ..) => format!("Ignored: {}", escape(why)),
            (_, Some(flag), _) => escape(flag.help),
            (_, _, Some((_, meaning))) => (*meaning).to_owned(),
            _ => panic!("{field}: neither flag nor meaning"),
        };
        let flag = flag.map(|it| format!("`--{}`", it.name));
        let flag = flag.unwrap_or_default();
        let row = writeln!(page, "| `{field}` | `{default}` | {flag} | {meaning} |");
        row.expect("writing to a string cannot fail");
    }
    page.push_str(
        "\nThe section of a mode counts in that mode, `iptables` in the ipvs mode too. Fields of another mode that differ \
         from their defaults are a warning.\n",
    );
    golden::compare(&folder(), [("configuration.md".to_owned(), page)]);
}

/// Every field that has no fields of its own, with its default.
fn leaves(path: String, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(format!("{path}{dot}{name}"), value, found);
            }
        }
        value => found.push((path, value.to_string())),
    }
}
