//! Manifests for tests.

/// A Service of one port on one line each for name and port.
pub(crate) fn service(name: &str, port: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{clusterIP: 10.96.0.1, ports: [{{port: {port}}}]}}\n"
    )
}
