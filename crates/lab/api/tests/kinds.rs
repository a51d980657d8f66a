//! Kinds that come and go while the server runs.

use futures::StreamExt;
use serde_json::json;
use sluice_api::answer::Content;

use crate::http::Client;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

#[test]
fn a_kind_can_come_and_go() {
    let client = Client::new();
    let history = client.0.store.history();
    let slice = history.of_kind("discovery.k8s.io/v1", "EndpointSlice");
    let slice = slice.unwrap();
    let object = json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []});
    history.serve(history.registry().without(&slice));
    let served = [
        (SLICES, "/items/0/addressType"),
        ("/apis/discovery.k8s.io", "/preferredVersion/groupVersion"),
        ("/apis/discovery.k8s.io/v1", "/resources/0/verbs"),
        (
            "/apis/discovery.k8s.io/v1",
            "/resources/0/storageVersionHash",
        ),
        ("/openapi/v3/apis/discovery.k8s.io/v1", "/paths"),
    ];
    for (path, _) in served {
        assert_eq!(client.get(path).0, 404, "{path}");
    }
    history.serve(history.registry().with(vec![(*slice).clone()]));
    assert_eq!(client.json("POST", SLICES, &object).0, 201);
    for (path, pointer) in served {
        let (code, body) = client.get(path);
        assert!(
            code == 200 && body.pointer(pointer).is_some(),
            "{path}: {body}"
        );
    }
    let auth = [("authorization", "Bearer secret")];
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let _entered = runtime.enter();
    let watch = client.raw("GET", &format!("{SLICES}?watch=true"), &auth, b"");
    let Content::Pieces(mut pieces) = watch.content else {
        panic!("a watch is a stream");
    };
    assert!(runtime.block_on(pieces.next()).is_some(), "the object");
    history.serve(history.registry().without(&slice));
    assert_eq!(runtime.block_on(pieces.next()), None, "the watch ends");
    assert_eq!(client.get(SLICES).0, 404);
    // As in a cluster of Kubernetes.
    let (_, core) = client.get("/api/v1");
    let core = core["resources"].as_array().unwrap();
    let services = core.iter().find(|it| it["name"] == "services");
    assert_eq!(services.unwrap()["storageVersionHash"], "0/CO1lhkEBI=");
}
