use serde_json::{Value, json};

use super::*;

fn fields(spec: &Value) -> Vec<String> {
    let mut problems = Problems::default();
    check(
        "spec",
        &serde_json::from_value(spec.clone()).unwrap(),
        &mut problems,
    );
    problems.found.into_iter().map(|it| it.field).collect()
}

#[test]
fn no_name_leaves_its_line_or_its_folder() {
    let config = |it: Value| json!({"dnsConfig": it});
    let many: Vec<String> = (0..33).map(|it| format!("d{it}.example")).collect();
    for (spec, wrong) in [
        (
            json!({"hostname": "db-0", "subdomain": "db", "nodeName": "n.example"}),
            &[][..],
        ),
        (
            json!({"hostname": "", "subdomain": "", "nodeName": ""}),
            &[],
        ),
        (
            config(
                json!({"nameservers": ["10.9.8.7", "2001:db8::1"], "searches": ["_tcp.example.", "."]}),
            ),
            &[],
        ),
        (
            config(json!({"options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]})),
            &[],
        ),
        (
            config(json!({"nameservers": ["1.1.1.1\nnameserver 6.6.6.6"]})),
            &["spec.dnsConfig.nameservers[0]"],
        ),
        (
            config(json!({"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]})),
            &["spec.dnsConfig.nameservers"],
        ),
        (
            config(json!({"searches": ["a\nb"]})),
            &["spec.dnsConfig.searches[0]"],
        ),
        (
            config(json!({"searches": many})),
            &["spec.dnsConfig.searches"],
        ),
        (
            config(json!({"options": [{"name": "x\ny"}]})),
            &["spec.dnsConfig.options[0].name"],
        ),
        (
            config(json!({"options": [{"name": "x", "value": "1\ny"}]})),
            &["spec.dnsConfig.options[0].value"],
        ),
        (
            config(json!({"options": [{"value": "1"}]})),
            &["spec.dnsConfig.options[0].name"],
        ),
        (json!({"dnsPolicy": "None"}), &["spec.dnsConfig"]),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {}}),
            &["spec.dnsConfig.nameservers"],
        ),
    ] {
        let mut spec = spec;
        spec["containers"] = json!([]);
        assert_eq!(fields(&spec), wrong, "{spec}");
    }
}
