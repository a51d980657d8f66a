//! The files that pods find.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// Writes `ca.crt`, `token` and `namespace`, as pods find them.
pub(super) fn write_service_account(folder: &Path, ca_pem: &str, token: &str) -> Result<(), Error> {
    let files = [
        ("ca.crt", ca_pem),
        ("token", token),
        ("namespace", "kube-system"),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|cause| Error::Write {
            path: path.display().to_string(),
            cause,
        })?;
    }
    Ok(())
}
