//! Requests beside each other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use serde_json::{Value, json};
use sluice_api::answer::Answer;
use sluice_api::{Admission, Api, Settings, Status, Store};

use crate::http::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Holds each write that has to do with the object `held`, until the test lets it go.
struct Held {
    entered: Sender<()>,
    go: Receiver<()>,
}

impl Held {
    fn hold(&self, object: &Value) {
        if object["metadata"]["name"] == "held" {
            let _ = self.entered.send(());
            let _ = self.go.recv_timeout(Duration::from_secs(60));
        }
    }
}

impl Admission for Held {
    fn admit(&mut self, _: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        self.hold(new);
        Ok(())
    }

    fn deleted(&mut self, old: &Value) {
        self.hold(old);
    }
}

async fn ask(api: Arc<Api>, method: &str, path: String, body: Value) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", "Bearer secret").header(
        "content-type",
        match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        },
    );
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    api.answer_or_pass(request.body(body).unwrap(), false).await
}

/// One thread has all connections: what it waits for, everybody waits for.
#[test]
fn whoever_reads_waits_for_no_write() {
    let ((entered, entries), (go, gone)) = (channel(), channel());
    let mut client = Client::new();
    client.0.store = Store::new(Settings {
        admission: Box::new(Held { entered, go: gone }),
        ..Settings::default()
    });
    let api = Arc::new(client.0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let map = |name: &str| json!({"metadata": {"name": name}, "data": {"a": name}});
        let other = ask(api.clone(), "POST", MAPS.to_owned(), map("other")).await;
        assert_eq!(other.status(), 201);
        let one = format!("{MAPS}/held");
        let mut patched = map("held");
        patched["data"]["b"] = "c".into();
        let mut changed = patched.clone();
        changed["data"]["b"] = "d".into();
        for (method, path, body) in [
            ("POST", MAPS.to_owned(), map("held")),
            ("PATCH", one.clone(), patched),
            ("PUT", one.clone(), changed),
            ("DELETE", one.clone(), Value::Null),
        ] {
            let write = tokio::spawn(ask(api.clone(), method, path, body));
            // The write begins when this task waits.
            while entries.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            for read in [
                MAPS.to_owned(),
                format!("{MAPS}/other"),
                "/readyz".to_owned(),
            ] {
                let answer = ask(api.clone(), "GET", read, Value::Null).await;
                assert_eq!(answer.status(), 200, "{method}");
            }
            assert!(!write.is_finished(), "{method}");
            go.send(()).unwrap();
            assert!(write.await.unwrap().status().is_success(), "{method}");
        }
    });
}

/// Everybody counts up in one object, and does it again when another one was first.
#[test]
fn of_many_writers_none_is_lost() {
    const WRITERS: usize = 100;
    let client = Client::new();
    let map = json!({"metadata": {"name": "counter"}, "data": {"n": "0"}});
    assert_eq!(client.json("POST", MAPS, &map).0, 201);
    let one = format!("{MAPS}/counter");
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                loop {
                    let (code, mut map) = client.get(&one);
                    assert_eq!(code, 200);
                    let n: usize = map["data"]["n"].as_str().unwrap().parse().unwrap();
                    map["data"]["n"] = (n + 1).to_string().into();
                    match client.json("PUT", &one, &map) {
                        (200, _) => return,
                        (code, answer) => assert_eq!(code, 409, "{answer}"),
                    }
                }
            });
        }
    });
    let (_, map) = client.get(&one);
    assert_eq!(map["data"]["n"], WRITERS.to_string());
}
