//! A request to the API server. The tests of the Service proxy share it.

use std::time::Duration;

use sluice_model::ApiRequest;

/// It waited 200 ms and took 20 ms; without a code there was no answer.
pub(crate) fn request(host: &str, code: Option<u16>) -> ApiRequest<'_> {
    ApiRequest {
        method: "GET",
        host,
        code,
        elapsed: Duration::from_millis(20),
        waited: Some(Duration::from_millis(200)),
        sent: Some(0),
        received: code.map(|_| 4000),
    }
}
