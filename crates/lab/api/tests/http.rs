//! The API without a connection: requests and answers.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::StreamExt;
use hyper::Request;
use proptest::prelude::*;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use sluice_api::answer::Content;
use sluice_api::{
    Api, ClientCertificates, DeleteOptions, Identity, Pems, Settings, Store, Tokens, kubeconfig,
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub(crate) struct Client(pub(crate) Api);

pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) content: Content,
}

impl Client {
    pub(crate) fn new() -> Self {
        let key = Pems::make("test", &[], "admin").unwrap().token_key;
        Self(Api {
            store: Store::new(Settings::default()),
            logs: None,
            token: "secret".to_owned(),
            user: "admin".to_owned(),
            tokens: Some(Tokens::new(&key).unwrap()),
            dial: None,
            metrics: None,
            programs: None,
            sessions: sluice_api::Sessions::default(),
            requests: sluice_api::Requests::default(),
        })
    }

    pub(crate) fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::copy_from_slice(body)).unwrap();
        let (head, content) = self.0.answer(&request, false).into_parts();
        let warnings = head.headers.get_all("warning").iter();
        Reply {
            code: head.status.as_u16(),
            warnings: warnings.map(|it| it.to_str().unwrap().to_owned()).collect(),
            content,
        }
    }

    /// With the token.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> (u16, Value) {
        let headers = [
            ("authorization", "Bearer secret"),
            ("content-type", content_type),
        ];
        let reply = self.raw(method, path, &headers, body);
        (reply.code, reply.content.json())
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(
            method,
            path,
            "application/json",
            body.to_string().as_bytes(),
        )
    }

    /// PUT, in place of the version that is stored.
    pub(crate) fn replace(&self, path: &str, object: &Value) -> (u16, Value) {
        let mut new = object.clone();
        let version = &self.get(path).1["metadata"]["resourceVersion"];
        new["metadata"]["resourceVersion"] = version.clone();
        self.json("PUT", path, &new)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "", b"")
    }
}

pub(crate) trait Whole {
    fn bytes(self) -> Bytes;
    fn json(self) -> Value;
}

impl Whole for Content {
    fn bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.unwrap_or_default(),
            Self::Pieces(pieces) => {
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.build().unwrap();
                let pieces: Vec<_> = runtime.block_on(pieces.collect());
                pieces.concat().into()
            }
        }
    }

    fn json(self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn strangers_learn_no_objects() {
    let client = Client::new();
    for (path, expect) in [
        ("/version", 200),
        ("/healthz", 200),
        ("/api", 401),
        ("/apis/apps/v1", 401),
        ("/openapi/v2", 401),
        (PODS, 401),
        ("/nothing", 401),
    ] {
        assert_eq!(client.raw("GET", path, &[], b"").code, expect, "{path}");
        let wrong = [("authorization", "Bearer wrong")];
        assert_eq!(client.raw("GET", path, &wrong, b"").code, expect, "{path}");
    }
    assert_eq!(client.get("/nothing").0, 404);
    assert_eq!(client.get(PODS).0, 200);
}

#[test]
fn methods_have_their_places() {
    let client = Client::new();
    client.json("POST", PODS, &pod("p"));
    let one = format!("{PODS}/p");
    for (method, path, expect) in [
        ("POST", "/api/v1/pods", 405),
        ("POST", one.as_str(), 405),
        ("PUT", PODS, 405),
        ("PATCH", PODS, 405),
        ("POST", "/apis", 405),
        ("GET", "/api/v1/namespaces/default/pods/p/exec", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/scale", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/status", 200),
        ("GET", "/api/v1/namespaces/default/pods/p/log", 404),
        ("PUT", "/api/v1/namespaces/default/pods/p/log", 405),
        ("GET", "/api/v1/namespaces/default/status", 200),
        ("GET", "/apis/apps", 200),
        ("GET", "/apis/none", 404),
        ("GET", "/openapi/v3", 200),
        ("GET", "/openapi/v3/apis/apps/v1", 200),
        ("GET", "/openapi/v3/apis/none/v1", 404),
    ] {
        let (code, body) = client.json(method, path, &json!({"metadata": {}}));
        assert_eq!(code, expect, "{method} {path}: {body}");
    }
}

#[test]
fn writes_are_answered_as_kube_apiserver_does() {
    let client = Client::new();
    let (code, created) = client.json("POST", PODS, &pod("p"));
    assert_eq!((code, &created["kind"]), (201, &json!("Pod")));
    assert_eq!(client.json("POST", PODS, &pod("p")).0, 409);
    let one = format!("{PODS}/p");
    let (code, error) = client.json("PUT", &one, &pod("q"));
    assert_eq!(code, 400, "{error}");
    let mut changed = pod("p");
    changed["spec"]["nodeName"] = "n".into();
    assert_eq!(
        client.json("PUT", &one, &changed).1["spec"]["nodeName"],
        "n"
    );
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "m"}});
    assert_eq!(
        client.json("POST", &format!("{one}/binding"), &binding).0,
        409
    );
    let status = json!({
        "metadata": {"annotations": {"by": "kubelet"}, "finalizers": ["example.com/kept"]},
        "status": {"phase": "Running"},
        "spec": {"nodeName": "other"},
    });
    let (code, stored) = client.send(
        "PATCH",
        &format!("{one}/status"),
        MERGE,
        status.to_string().as_bytes(),
    );
    assert_eq!((code, &stored["spec"]["nodeName"]), (200, &json!("n")));
    assert_eq!(stored["status"]["phase"], "Running");
    assert_eq!(stored["metadata"]["annotations"]["by"], "kubelet");
    assert!(stored["metadata"]["finalizers"].is_null(), "{stored}");
    let (code, last) = client.send("DELETE", &one, "", b"");
    assert_eq!((code, &last["kind"]), (200, &json!("Pod")));
    let (_, gone) = client.json("DELETE", &format!("{one}?gracePeriodSeconds=0"), &json!({}));
    assert_eq!(
        (&gone["kind"], &gone["metadata"]["uid"]),
        (&json!("Pod"), &last["metadata"]["uid"])
    );
    assert_eq!(client.get(&one).0, 404);
    // Of most kinds a Status is all that is left.
    let maps = "/api/v1/namespaces/default/configmaps";
    client.json("POST", maps, &json!({"metadata": {"name": "m"}}));
    for query in ["?dryRun=All", ""] {
        let (_, gone) = client.json("DELETE", &format!("{maps}/m{query}"), &json!({}));
        let said = (&gone["kind"], &gone["status"], &gone["details"]["name"]);
        assert_eq!(said, (&json!("Status"), &json!("Success"), &json!("m")));
    }
    for name in ["a", "b"] {
        client.json("POST", PODS, &pod(name));
    }
    let (code, list) = client.send("DELETE", PODS, "", b"");
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    assert!(client.0.store.list("Pod").is_empty());
}

#[test]
fn unknown_fields_are_told() {
    let client = Client::new();
    let headers = [("authorization", "Bearer secret")];
    let mut odd = pod("p");
    odd["spec"]["containers"][0]["imagee"] = "x".into();
    let body = odd.to_string();
    let strict = client.raw(
        "POST",
        &format!("{PODS}?fieldValidation=Strict"),
        &headers,
        body.as_bytes(),
    );
    assert_eq!(strict.code, 400);
    let error = strict.content.json()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        error.contains("unknown field \"spec.containers[0].imagee\""),
        "{error}"
    );
    let warned = client.raw("POST", PODS, &headers, body.as_bytes());
    assert_eq!(
        warned.warnings,
        [r#"299 - "unknown field \"spec.containers[0].imagee\"""#]
    );
    let twice =
        br#"{"metadata": {"name": "q"}, "spec": {"containers": [{"name": "a", "name": "c", "image": "i"}]}}"#;
    let warned = client.raw("POST", PODS, &headers, twice);
    assert_eq!(
        warned.warnings,
        [r#"299 - "duplicate field \"spec.containers[0].name\"""#]
    );
    let both = br#"{"kind": "Pod", "kind": "Pod", "metadata": {"name": "q"}, "spec": {"odd": 1}}"#;
    let strict = client.raw(
        "POST",
        &format!("{PODS}?fieldValidation=Strict"),
        &headers,
        both,
    );
    let said = strict.content.json()["message"].to_string();
    let expected = r#"strict decoding error: unknown field \"spec.odd\", duplicate field \"kind\""#;
    assert!(said.contains(expected), "{said}");
    let stored = client.0.store.get("Pod", "default", "p").unwrap();
    let container = &stored["spec"]["containers"][0];
    assert_eq!(container["name"], "c");
    assert_eq!(container["imagee"], Value::Null);
}

#[test]
fn scales_and_dry_runs() {
    let client = Client::new();
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let set = json!({"metadata": {"name": "r"}, "spec": spec});
    client.json("POST", sets, &set);
    let scale = format!("{sets}/r/scale");
    let (_, before) = client.get(&scale);
    assert_eq!(
        (&before["spec"]["replicas"], &before["status"]["selector"]),
        (&json!(1), &json!("a=b"))
    );
    let three = json!({"metadata": {"name": "r"}, "spec": {"replicas": 3}});
    assert_eq!(
        client.json("PUT", &format!("{scale}?dryRun=All"), &three).1["spec"]["replicas"],
        3
    );
    assert_eq!(client.get(&scale).1["spec"]["replicas"], 1);
    assert_eq!(client.json("PUT", &scale, &three).0, 200);
    assert_eq!(client.get(&scale).1["spec"]["replicas"], 3);
    let negative = json!({"metadata": {"name": "r"}, "spec": {"replicas": -1}});
    assert_eq!(client.json("PUT", &scale, &negative).0, 422);
    assert_eq!(
        client
            .json("PUT", &format!("{scale}?dryRun=Some"), &three)
            .0,
        422
    );
    let mut stale = three;
    stale["metadata"]["resourceVersion"] = "1".into();
    assert_eq!(client.json("PUT", &scale, &stale).0, 409);
}

#[test]
fn options_of_a_deletion_are_checked() {
    let client = Client::new();
    client.json("POST", PODS, &pod("p"));
    let path = format!("{PODS}/p");
    let invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: ";
    for (options, code, message) in [
        (
            json!({"orphanDependents": true, "propagationPolicy": "Foreground"}),
            422,
            format!(
                "{invalid}propagationPolicy: Invalid value: \"Foreground\": orphanDependents and deletionPropagation \
                 cannot be both set"
            ),
        ),
        (
            json!({"propagationPolicy": "Foo"}),
            422,
            format!(
                "{invalid}propagationPolicy: Unsupported value: \"Foo\": supported values: \"Foreground\", \
                 \"Background\", \"Orphan\", \"nil\""
            ),
        ),
        (
            json!({"dryRun": ["Foo"]}),
            422,
            format!("{invalid}dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\""),
        ),
        (
            json!({"kind": "Pod", "apiVersion": "v1"}),
            400,
            "no kind \"Pod\" is registered for version \"v1\"".to_owned(),
        ),
    ] {
        let (found, status) = client.json("DELETE", &path, &options);
        assert_eq!(
            (found, &status["message"]),
            (code, &json!(message)),
            "{options}"
        );
        assert_eq!(client.get(&path).0, 200);
    }
    let good = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]});
    let (code, would) = client.json("DELETE", &path, &good);
    assert_eq!(
        (code, &would["kind"], &would["metadata"]["name"]),
        (200, &json!("Pod"), &json!("p"))
    );
    let mut running = pod("runs");
    running["spec"]["nodeName"] = "n".into();
    client.json("POST", PODS, &running);
    // Its kubelet would have to end it first.
    let (code, would) = client.json("DELETE", &format!("{PODS}/runs"), &good);
    assert_eq!((code, &would["kind"]), (200, &json!("Pod")));
    assert_eq!(client.get(&path).0, 200);
    let good = json!({"propagationPolicy": "Background"});
    assert_eq!(client.json("DELETE", &path, &good).0, 200);
    assert_eq!(client.get(&path).0, 404);
}

#[test]
fn tables_come_in_lists_and_watches() {
    let client = Client::new();
    client.json("POST", PODS, &pod("p"));
    let headers = [("authorization", "Bearer secret"), ("accept", TABLE)];
    let list = client.raw("GET", PODS, &headers, b"").content.json();
    assert_eq!(list["kind"], "Table");
    assert_eq!(list["rows"][0]["cells"][0], "p");
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let whole = client.raw(
        "GET",
        &format!("{PODS}?includeObject=Object"),
        &headers,
        b"",
    );
    assert_eq!(whole.content.json()["rows"][0]["object"]["kind"], "Pod");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let watch = client.raw(
            "GET",
            &format!("{PODS}?watch=1&includeObject=None"),
            &headers,
            b"",
        );
        let Content::Pieces(mut pieces) = watch.content else {
            panic!("a watch comes in pieces");
        };
        let line = pieces.next().await.unwrap();
        let event: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["kind"]),
            (&json!("ADDED"), &json!("Table"))
        );
        assert!(event["object"]["rows"][0]["object"].is_null());
    });
    let protobuf = [
        ("authorization", "Bearer secret"),
        ("accept", "application/vnd.kubernetes.protobuf"),
    ];
    assert_eq!(client.raw("GET", PODS, &protobuf, b"").code, 406);
}

#[test]
fn apply_creates_and_changes() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/configmaps/c?fieldManager=m";
    let (code, _) = client.send("PATCH", path, APPLY, &config("c", "data: {a: b, c: d}"));
    assert_eq!(code, 201);
    let (code, stored) = client.send("PATCH", path, APPLY, &config("c", "data: {a: e}"));
    assert_eq!((code, &stored["data"]), (200, &json!({"a": "e"})));
    let unnamed = "/api/v1/namespaces/default/configmaps/c";
    let (code, refused) = client.send("PATCH", unnamed, APPLY, &config("c", ""));
    let why = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    assert_eq!((code, &refused["message"]), (422, &why.into()));
    for bad in [&b"a: [b"[..], b"", b"- a", b"---\n{}\n---\n{}", b"\xff"] {
        assert_eq!(client.send("PATCH", path, APPLY, bad).0, 400, "{bad:?}");
    }
}

/// A ConfigMap to apply.
pub(crate) fn config(name: &str, fields: &str) -> Vec<u8> {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{fields}\n").into()
}

const REVIEWS: &str = "/apis/authentication.k8s.io/v1";

impl Client {
    fn token_of(&self, account: &str, spec: &Value) -> (u16, Value) {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        self.json("POST", &path, &json!({"spec": spec}))
    }

    /// The user of a token, or the code of the refusal.
    fn user_of(&self, token: &str) -> Result<Value, u16> {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let path = format!("{REVIEWS}/selfsubjectreviews");
        let reply = self.raw("POST", &path, &headers, b"{}");
        match reply.code {
            201 => Ok(reply.content.json()["status"]["userInfo"].take()),
            code => Err(code),
        }
    }
}

#[test]
fn a_token_is_of_its_account_as_long_as_that_and_its_pod_exist() {
    let client = Client::new();
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (code, account) = client.json("POST", accounts, &account);
    assert_eq!(code, 201, "{account}");
    let mut owner = pod("p");
    owner["spec"]["serviceAccountName"] = "robot".into();
    let (_, owner) = client.json("POST", PODS, &owner);
    let (code, answer) = client.token_of("robot", &json!({}));
    assert_eq!((code, &answer["kind"]), (201, &"TokenRequest".into()));
    assert_eq!(answer["spec"]["expirationSeconds"], 3600);
    let free = answer["status"]["token"].as_str().unwrap().to_owned();
    let reference =
        |uid: &Value| json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid});
    let uid = &owner["metadata"]["uid"];
    let spec = json!({"boundObjectRef": reference(uid)});
    let bound = client.token_of("robot", &spec).1["status"]["token"].take();
    let bound = bound.as_str().unwrap().to_owned();
    let user = client.user_of(&bound).unwrap();
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], account["metadata"]["uid"]);
    assert_eq!(user["groups"][1], "system:serviceaccounts:default");
    assert_eq!(
        user["extra"]["authentication.kubernetes.io/pod-uid"],
        json!([uid])
    );
    assert_eq!(client.user_of("secret").unwrap()["username"], "admin");
    for (spec, code, said) in [
        (
            json!({"expirationSeconds": 60}),
            422,
            "less than 10 minutes",
        ),
        (
            json!({"boundObjectRef": reference(&"other".into())}),
            409,
            "does not match the UID",
        ),
        (
            json!({"boundObjectRef": {"kind": "Pod", "name": "q"}}),
            404,
            "pods \"q\" not found",
        ),
        (
            json!({"boundObjectRef": {"kind": "Service", "name": "q"}}),
            400,
            "cannot bind token",
        ),
    ] {
        let (is, answer) = client.token_of("robot", &spec);
        assert_eq!(is, code, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(said),
            "{answer}"
        );
        let field = &answer["details"]["causes"][0]["field"];
        assert_eq!(*field == "spec.expirationSeconds", code == 422, "{answer}");
    }
    assert_eq!(client.token_of("nobody", &json!({})).0, 404);
    // For another audience.
    let spec = json!({"audiences": ["vault"]});
    let foreign = client.token_of("robot", &spec).1["status"]["token"].take();
    let foreign = foreign.as_str().unwrap();
    assert_eq!(client.user_of(foreign), Err(401));
    let review = |spec: &Value| {
        let path = format!("{REVIEWS}/tokenreviews");
        client.json("POST", &path, &json!({"spec": spec})).1["status"].take()
    };
    let status = review(&json!({"token": foreign, "audiences": ["vault"]}));
    assert_eq!(
        status["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    assert!(review(&json!({"token": foreign}))["error"].is_string());
    let other = Client::new();
    assert_eq!(other.user_of(&free), Err(401));
    let at_once = DeleteOptions {
        grace: Some(0),
        ..DeleteOptions::default()
    };
    let store = &client.0.store;
    store.delete("Pod", "default", "p", at_once).unwrap();
    assert_eq!(client.user_of(&bound), Err(401));
    assert!(client.user_of(&free).is_ok());
    let options = DeleteOptions::default();
    store
        .delete("ServiceAccount", "default", "robot", options)
        .unwrap();
    assert_eq!(client.user_of(&free), Err(401));
}

/// Others verify a token by the issuer's documents alone.
#[test]
fn tokens_are_verified_by_the_published_key() {
    let client = Client::new();
    let account = json!({"metadata": {"name": "robot"}});
    client.json(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts",
        &account,
    );
    let (_, answer) = client.token_of("robot", &json!({}));
    let token = answer["status"]["token"].as_str().unwrap();
    let of = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let json_of = |text: &str| serde_json::from_slice::<Value>(&of(text)).unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let (header, issuer) = (json_of(header), json_of(claims)["iss"].take());

    let (code, found) = client.get("/.well-known/openid-configuration");
    assert_eq!((code, &found["issuer"]), (200, &issuer));
    let algorithms = &found["id_token_signing_alg_values_supported"];
    assert_eq!(algorithms, &json!([header["alg"]]));
    let path = found["jwks_uri"].as_str().unwrap();
    let path = path.strip_prefix(issuer.as_str().unwrap()).unwrap();
    let key = client.get(path).1["keys"][0].take();
    assert_eq!(key["kid"], header["kid"]);
    let part = |name: &str| of(key[name].as_str().unwrap());
    let point = [vec![4], part("x"), part("y")].concat();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    key.verify(signed.as_bytes(), &of(signature)).unwrap();

    let (code, _) = client.json("POST", path, &json!({}));
    assert_eq!(code, 405);
    assert_eq!(client.raw("GET", path, &[], b"").code, 401);
}

#[test]
fn reviews_are_kinds_that_can_only_be_created() {
    let client = Client::new();
    for (group, count) in [("authentication.k8s.io", 2), ("authorization.k8s.io", 4)] {
        let path = format!("/apis/{group}/v1");
        let (_, found) = client.get(&path);
        let kinds = found["resources"].as_array().unwrap();
        assert_eq!(kinds.len(), count, "{found}");
        for kind in kinds {
            assert_eq!(kind["verbs"], json!(["create"]));
            let namespaced = kind["namespaced"] == true;
            let within = if namespaced {
                "/namespaces/default"
            } else {
                ""
            };
            let path = format!("{path}{within}/{}", kind["name"].as_str().unwrap());
            assert_eq!(client.get(&path).0, 405);
            let asked = json!({"namespace": "default"});
            let spec = match kind["kind"].as_str().unwrap() {
                "TokenReview" => json!({"token": "t"}),
                "SelfSubjectReview" | "SelfSubjectRulesReview" => json!({}),
                "SelfSubjectAccessReview" => json!({"resourceAttributes": asked}),
                _ => json!({"user": "u", "resourceAttributes": asked}),
            };
            let review = json!({"spec": spec});
            assert_eq!(client.json("POST", &path, &review).0, 201);
            let odd = json!({"spec": {"odd": 1}});
            let strict = format!("{path}?fieldValidation=Strict");
            assert_eq!(client.json("POST", &strict, &odd).0, 400);
            assert_eq!(client.get(&format!("{path}/x")).0, 404);
        }
        let (_, document) = client.get(&format!("/openapi/v3{path}"));
        let paths = document["paths"].as_object().unwrap().values();
        let methods = paths.flat_map(|it| it.as_object().unwrap().keys());
        assert!(methods.clone().count() == count && methods.clone().all(|it| it == "post"));
    }
}

#[test]
fn every_user_may_do_everything() {
    let client = Client::new();
    let group = "/apis/authorization.k8s.io/v1";
    let own = json!({"resourceAttributes": {"verb": "delete", "resource": "nodes"}});
    let of = |namespace: &str| json!({"user": "ann", "resourceAttributes": {"verb": "get", "namespace": namespace}});
    for (plural, spec) in [
        ("selfsubjectaccessreviews", own),
        ("subjectaccessreviews", of("other")),
        (
            "namespaces/default/localsubjectaccessreviews",
            of("default"),
        ),
    ] {
        let path = format!("{group}/{plural}");
        let (code, answer) = client.json("POST", &path, &json!({"spec": spec}));
        assert_eq!((code, &answer["status"]["allowed"]), (201, &true.into()));
        assert_eq!(answer["spec"], spec);
    }
    let (_, rules) = client.json(
        "POST",
        &format!("{group}/selfsubjectrulesreviews"),
        &json!({}),
    );
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    let path = format!("{group}/selfsubjectaccessreviews");
    let (code, _) = client.get(&path);
    assert_eq!(code, 405);
    let headers = [("authorization", "Bearer secret"), ("accept", TABLE)];
    let reply = client.raw("POST", &path, &headers, b"{}");
    assert_eq!(reply.code, 406, "a review is no table");
}

#[test]
fn a_review_asks_one_question() {
    let client = Client::new();
    let group = "/apis/authorization.k8s.io/v1";
    let asked = json!({"verb": "get", "namespace": "other"});
    let both =
        json!({"user": "u", "resourceAttributes": asked, "nonResourceAttributes": {"path": "/"}});
    for (plural, review, expect) in [
        (
            "selfsubjectaccessreviews",
            json!({"spec": {}}),
            "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: \
             exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": both}),
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: \
             {\"path\":\"/\"}: cannot be specified in combination with resourceAttributes",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"resourceAttributes": asked}}),
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user \
             or group must be specified",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"spec": {"user": "u", "resourceAttributes": asked}}),
            "LocalSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid \
             value: \"other\": must match metadata.namespace",
        ),
        (
            "selfsubjectaccessreviews",
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"resourceAttributes": asked}}),
            "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: metadata: Invalid value: {\"labels\":{\"a\":\"b\"}}: \
             must be empty",
        ),
    ] {
        let (code, refused) = client.json("POST", &format!("{group}/{plural}"), &review);
        assert_eq!((code, refused["message"].as_str().unwrap()), (422, expect));
    }
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (code, refused) = client.json("POST", path, &json!({"spec": {}}));
    let expect = "token is required for TokenReview in authentication";
    assert_eq!((code, refused["message"].as_str().unwrap()), (400, expect));
}

#[test]
fn an_identity_outlives_its_server() {
    let names = ["192.0.2.1".to_owned(), "lab.example".to_owned()];
    let pems = Pems::make("lab", &names, "admin").unwrap();
    let config = kubeconfig("lab", "https://192.0.2.1:6443", Some(&pems), None);
    let again = Identity::new(pems, ClientCertificates::Accepted).unwrap();
    let second = kubeconfig("lab", "https://192.0.2.1:6443", Some(&again.pems), None);
    assert_eq!(config, second);
    let mut broken = again.pems;
    broken.key = "none".to_owned();
    assert!(Identity::new(broken, ClientCertificates::Ignored).is_err());
}

/// Any JSON, often with the words of objects.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "kind",
        "apiVersion",
        "metadata",
        "name",
        "namespace",
        "labels",
        "finalizers",
        "spec",
        "status",
        "replicas",
        "ownerReferences",
        "uid",
        "managedFields",
        "fieldsV1",
        "f:spec",
        "k:{}",
        "v:1",
        ".",
        "resourceVersion",
        "deletionTimestamp",
        "containers",
        "ports",
        "op",
        "path",
        "value",
        "from",
        "add",
        "copy",
        "remove",
        "/metadata",
        "/spec",
        "p",
        "default",
        "$patch",
        "delete",
        "target",
        "deleteOptions",
        "gracePeriodSeconds",
        "generateName",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5)
                .prop_map(|it| it.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_answered(body in any_json(), metadata in any_json(), path in 0..9usize, method in 0..7usize) {
        let client = Client::new();
        client.json("POST", PODS, &pod("p"));
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        client.json("POST", deployments, &json!({"metadata": {"name": "p"}}));
        let paths = [
            PODS.to_owned(), format!("{PODS}/p?fieldManager=x"), format!("{PODS}/p/status?fieldManager=x&force=1"),
            format!("{PODS}/p/eviction"), format!("{PODS}/p/binding"), format!("{deployments}/p?fieldManager=y"),
            format!("{deployments}/p/scale"), "/api/v1/namespaces".to_owned(), format!("{PODS}/p/resize"),
        ];
        let (method, content_type) = [
            ("POST", "application/json"), ("PUT", "application/json"), ("DELETE", "application/json"),
            ("PATCH", MERGE), ("PATCH", STRATEGIC), ("PATCH", JSON_PATCH), ("PATCH", APPLY),
        ][method];
        let mut fitting = body.clone();
        if let Some(fitting) = fitting.as_object_mut() {
            fitting.insert("metadata".to_owned(), metadata);
        }
        for body in [body, fitting] {
            let (code, answer) = client.send(method, &paths[path], content_type, body.to_string().as_bytes());
            // kube-apiserver's code for an applied configuration that is none of its type, for some patches, for a version
            // that is no number, and for a binding without its target.
            let message = answer["message"].as_str().unwrap_or_default();
            let words = ["failed to create typed patch object", "map: ", "unknown patch type: ", "strconv.ParseUint: ", "target.", "[target."];
            let is_known = words.iter().any(|it| message.starts_with(it));
            prop_assert!(code < 500 || is_known, "{code} {answer}");
        }
    }
}
