//! [`KubeProxyConfiguration`] → YAML.

use serde_json::Value;

use crate::types::KubeProxyConfiguration;

/// Writes a configuration as kube-proxy does: every field, sorted by name.
///
/// Law: [`decode`](crate::decode) of the result gives the configuration again and ignores nothing.
pub fn encode(config: &KubeProxyConfiguration) -> String {
    yaml(&serde_json::to_value(config).expect("plain values and text keys"))
}

/// Writes a value as YAML, sorted by name.
pub fn yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).expect("plain values and text keys")
}

#[cfg(test)]
mod tests;
