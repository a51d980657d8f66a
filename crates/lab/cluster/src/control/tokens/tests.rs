use bytes::Bytes;
use serde_json::json;
use sluice_api::answer::Content;
use sluice_api::{Pems, Sessions, Settings, Store, Tokens};

use super::*;
use crate::object::key_of;

fn api() -> Api {
    let key = Pems::make("test", &[], "admin").unwrap().token_key;
    Api {
        store: Store::new(Settings::default()),
        logs: None,
        token: "secret".to_owned(),
        user: "admin".to_owned(),
        tokens: Some(Tokens::new(&key).unwrap()),
        dial: None,
        metrics: None,
        programs: None,
        sessions: Sessions::default(),
        requests: sluice_api::Requests::default(),
    }
}

fn run(api: &Api) {
    let all = api.store.list("Secret").into_iter();
    let secrets = all.filter(|it| is_of_account(it));
    let secrets = secrets.map(|it| (key_of(&it), it)).collect();
    keep(api, &secrets, "CERTIFICATE", &mut Refusals::default());
}

/// The user that the API takes a token for.
fn user_of(api: &Api, token: &str) -> Value {
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let request = request.header("authorization", format!("Bearer {token}"));
    let answer = api.answer(&request.body(Bytes::from("{}")).unwrap(), false);
    let Content::Whole(Some(body)) = answer.into_body() else {
        panic!("a review is whole");
    };
    let review: Value = serde_json::from_slice(&body).unwrap();
    review["status"]["userInfo"]["username"].clone()
}

#[test]
fn a_secret_gets_a_token_and_ends_with_its_account() {
    let api = api();
    let store = &api.store;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"},
    });
    let account = store.create(account).unwrap();
    let secret = |name: &str, account: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": name, "namespace": "default", "annotations": {ACCOUNT: account}},
        })
    };
    store.create(secret("robot-token", "robot")).unwrap();
    store.create(secret("lost", "nobody")).unwrap();
    run(&api);
    assert_eq!(store.get("Secret", "default", "lost"), None);
    let filled = store.get("Secret", "default", "robot-token").unwrap();
    let data = |field: &str| {
        let text = BASE64_STANDARD.decode(filled["data"][field].as_str().unwrap());
        String::from_utf8(text.unwrap()).unwrap()
    };
    assert_eq!(
        (data("ca.crt"), data("namespace")),
        ("CERTIFICATE".into(), "default".into())
    );
    assert_eq!(
        filled["metadata"]["annotations"][UID],
        account["metadata"]["uid"]
    );
    let token = data("token");
    assert_eq!(user_of(&api, &token), "system:serviceaccount:default:robot");
    // What is there stays.
    run(&api);
    assert_eq!(
        store.get("Secret", "default", "robot-token").unwrap(),
        filled
    );
    // A new ServiceAccount of the name is another one.
    let options = DeleteOptions::default;
    store
        .delete("ServiceAccount", "default", "robot", options())
        .unwrap();
    assert_eq!(user_of(&api, &token), Value::Null);
    let again = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"},
    });
    store.create(again).unwrap();
    assert_eq!(user_of(&api, &token), Value::Null);
    run(&api);
    assert_eq!(store.get("Secret", "default", "robot-token"), None);
}
