//! KubeProxyConfiguration: reading, defaults, validation, meaning.
