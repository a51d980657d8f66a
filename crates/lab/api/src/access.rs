//! Authentication of requests.

use crate::status::Status;

/// Checks the credentials of a request: a bearer token or a client certificate.
///
/// # Errors
///
/// 401 when neither is valid.
pub fn authenticate(
    authorization: Option<&str>,
    token: Option<&str>,
    is_certified: bool,
) -> Result<(), Status> {
    let bearer = authorization.and_then(|it| it.strip_prefix("Bearer "));
    match (token, bearer) {
        _ if is_certified => Ok(()),
        (Some(token), Some(bearer)) if token == bearer => Ok(()),
        _ => Err(Status::unauthorized()),
    }
}
