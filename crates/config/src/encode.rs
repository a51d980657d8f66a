//! [`KubeProxyConfiguration`] → YAML.

use crate::types::KubeProxyConfiguration;

/// Writes a configuration as kube-proxy does: every field, sorted by name.
///
/// Law: [`decode`](crate::decode) of the result gives the configuration again and ignores nothing.
pub fn encode(config: &KubeProxyConfiguration) -> String {
    let sorted = serde_json::to_value(config).expect("plain values and text keys");
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&sorted, options).expect("plain values and text keys")
}

#[cfg(test)]
mod tests;
