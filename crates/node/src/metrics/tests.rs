mod request;

use super::*;
use request::request;

#[test]
fn requests_to_the_api_server() {
    let metrics = for_test();
    metrics.api_request(&request("api", Some(200)));
    metrics.api_request(&request("api", None));
    let watch = ApiRequest {
        waited: None,
        received: None,
        ..request("api", Some(200))
    };
    metrics.api_request(&watch);
    let text = metrics.text().expect("complete");
    let labels = r#"{host="api",verb="GET"}"#;
    for line in [
        format!("rest_client_request_duration_seconds_count{labels} 3"),
        format!("rest_client_rate_limiter_duration_seconds_count{labels} 2"),
        format!("rest_client_rate_limiter_duration_seconds_sum{labels} 0.4"),
        format!("rest_client_request_size_bytes_count{labels} 3"),
        format!("rest_client_response_size_bytes_count{labels} 1"),
        format!("rest_client_response_size_bytes_sum{labels} 4000"),
    ] {
        assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    }
}

#[test]
fn an_api_server_that_moves_does_not_fill_the_memory() {
    let metrics = for_test();
    for host in 0..10_000 {
        metrics.api_request(&request(&format!("host-{host}"), None));
    }
    let text = metrics.text().expect("complete");
    let lines = text.lines();
    let series = lines.filter(|it| it.starts_with("rest_client_requests_total{"));
    assert_eq!(series.count(), 512);
    metrics.api_request(&request("host-0", None));
    let known = r#"rest_client_requests_total{code="<error>",host="host-0",method="GET"} 2"#;
    assert!(
        metrics.text().expect("complete").contains(known),
        "what is known goes on"
    );
}
