//! Ways to the server: kubeconfigs, certificates, tokens, plugins.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use serde_json::json;
use sluice_miniapi::{Cut, MiniApi, Options};
use sluice_source::apiserver::{Access, Certificates, connect};

use crate::apiserver::cluster::{BASE, Files, Followed, base_and, cluster};
use crate::support::service_object;

/// A kubeconfig with this user.
fn kubeconfig(api: &MiniApi, user: &serde_json::Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": api.url(), "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    })
    .to_string()
}

fn with_token() -> MiniApi {
    cluster(Options {
        token: Some("first".to_owned()),
        ..Options::default()
    })
}

fn with_certificates() -> MiniApi {
    cluster(Options {
        client_certificates: true,
        token: Some("unused".to_owned()),
        ..Options::default()
    })
}

#[track_caller]
fn follows(access: &Access) -> Followed {
    let mut source = Followed::start(&connect(access).unwrap());
    source.view.until("synced", |it| it.synced == 1);
    assert_eq!(source.view.brief(), BASE);
    source
}

#[test]
fn inline_data_and_token() {
    let (api, files) = (with_token(), Files::new());
    follows(&files.access(&api.kubeconfig()));
}

#[test]
fn client_certificate_in_files() {
    let (api, files) = (with_certificates(), Files::new());
    let (certificate, key) = api.client_identity();
    files.write("ca.crt", &api.ca_pem());
    files.write("client.crt", &certificate);
    files.write("client.key", &key);
    let user = json!({"client-certificate": "client.crt", "client-key": "client.key"});
    follows(&files.access(&kubeconfig(&api, &user)));
}

#[test]
fn client_certificate_without_kubeconfig() {
    let (api, files) = (with_certificates(), Files::new());
    let (certificate, key) = api.client_identity();
    let access = Access {
        master: Some(api.url()),
        certificates: Some(Certificates {
            certificate: files.write("client.crt", &certificate),
            key: files.write("client.key", &key),
            authority: files.write("ca.crt", &api.ca_pem()),
        }),
        ..Access::default()
    };
    follows(&access);
    fs::remove_file(files.write("ca.crt", "")).unwrap();
    let error = connect(&access).unwrap_err().to_string();
    let start = format!("API server {}: ", api.url());
    assert!(
        error.starts_with(&start) && error.contains("ca.crt"),
        "{error}"
    );
}

#[test]
fn context_that_is_not_the_current_one() {
    let (api, files) = (with_token(), Files::new());
    files.write("ca.crt", &api.ca_pem());
    let text = kubeconfig(&api, &json!({"token": "first"}));
    let text = text.replace(r#""current-context":"c""#, r#""current-context":"gone""#);
    let of_context = |name: &str| Access {
        context: Some(name.to_owned()),
        ..files.access(&text)
    };
    follows(&of_context("c"));
    assert!(connect(&files.access(&text)).is_err());
    let error = connect(&of_context("other")).unwrap_err().to_string();
    assert!(error.contains("other"), "{error}");
}

#[test]
fn rotated_token_file_is_read_again_at_once() {
    let (api, files) = (with_token(), Files::new());
    files.write("ca.crt", &api.ca_pem());
    files.write("token", "first\n");
    let user = json!({"token": "old", "tokenFile": files.folder.path().join("token")});
    let mut source = follows(&files.access(&kubeconfig(&api, &user)));
    api.set_token(Some("second"));
    files.write("token", "second");
    api.cut_watches("", Cut::Reset);
    api.put(service_object("web", 80)).unwrap();
    source.view.expect(&base_and("Service default/web:80"));
    source.view.until("no problem", |it| it.problems.is_empty());
    assert!(source.view.deleted.is_empty());
}

#[test]
fn kubeconfig_that_is_replaced_is_read_again() {
    let (api, files) = (with_token(), Files::new());
    let mut source = follows(&files.access(&api.kubeconfig()));
    api.set_token(Some("second"));
    api.cut_watches("", Cut::Reset);
    source.view.until("a problem", |it| {
        let told = it.problems.get("API server");
        told.is_some_and(|it| it.iter().any(|it| it.contains("the server answered 401")))
    });
    files.write("kubeconfig", &api.kubeconfig());
    api.put(service_object("web", 80)).unwrap();
    source.view.expect(&base_and("Service default/web:80"));
}

#[test]
fn file_that_is_gone_does_not_cost_what_still_works() {
    let (api, files) = (with_token(), Files::new());
    let mut source = follows(&files.access(&api.kubeconfig()));
    fs::remove_file(files.folder.path().join("kubeconfig")).unwrap();
    api.inject(
        sluice_miniapi::Fault::Unauthorized
            .on(sluice_miniapi::Verb::Any, "")
            .times(8),
    );
    api.cut_watches("", Cut::Reset);
    api.put(service_object("web", 80)).unwrap();
    source.view.expect(&base_and("Service default/web:80"));
}

#[test]
fn plugin_is_asked_for_a_token_and_again_when_it_is_refused() {
    let (api, files) = (with_token(), Files::new());
    files.write("ca.crt", &api.ca_pem());
    let token = files.write("token", "first");
    let script = format!(
        "#!/bin/sh\necho run >> $0.log\necho '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\
         \"kind\":\"ExecCredential\",\"status\":{{\"token\":\"'$(cat {})'\"}}}}'\n",
        token.display()
    );
    let plugin = files.write("plugin", &script);
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let user = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": plugin,
        "interactiveMode": "Never",
    }});
    let mut source = follows(&files.access(&kubeconfig(&api, &user)));
    api.set_token(Some("second"));
    files.write("token", "second");
    api.cut_watches("", Cut::Reset);
    api.put(service_object("web", 80)).unwrap();
    source.view.expect(&base_and("Service default/web:80"));
    // Twice each time: for a token, and for a certificate.
    let runs = fs::read_to_string(files.folder.path().join("plugin.log")).unwrap();
    assert!(runs.lines().count() <= 8, "{runs}");
}

#[test]
fn master_overrides_the_server() {
    let (api, files) = (with_token(), Files::new());
    files.write("ca.crt", &api.ca_pem());
    let text = kubeconfig(&api, &json!({"token": "first"}));
    let text = text.replace(&api.url(), "https://127.0.0.1:1");
    let access = Access {
        master: Some(api.url()),
        ..files.access(&text)
    };
    follows(&access);
    let plain = cluster(Options {
        tls: false,
        ..Options::default()
    });
    for master in [plain.url(), plain.address().to_string()] {
        follows(&Access {
            kubeconfig: None,
            master: Some(master),
            ..access.clone()
        });
    }
}

#[test]
fn user_agent_and_names_are_sent_as_they_are() {
    let (api, files) = (with_token(), Files::new());
    let access = Access {
        user_agent: "sluice-test/1".to_owned(),
        ..files.access(&api.kubeconfig())
    };
    follows(&access);
    for request in api.requests() {
        assert_eq!(request.user_agent.as_deref(), Some("sluice-test/1"));
        assert_eq!(request.authorization.as_deref(), Some("Bearer first"));
        if request.path.ends_with("/services") {
            assert_eq!(
                request.parameter("labelSelector").as_deref(),
                Some("!service.kubernetes.io/service-proxy-name")
            );
        }
    }
}

#[test]
fn wrong_authority_is_told() {
    let (api, other, files) = (with_token(), with_token(), Files::new());
    files.write("ca.crt", &other.ca_pem());
    let access = files.access(&kubeconfig(&api, &json!({"token": "first"})));
    let mut source = Followed::start(&connect(&access).unwrap());
    source.view.until("a problem", |it| {
        it.problems
            .get("API server")
            .is_some_and(|it| it.len() == 4)
    });
    let told = source.view.problems["API server"].join("\n");
    assert!(told.contains("invalid peer certificate"), "{told}");
    assert_eq!(source.view.synced, 0);
}

/// Checks the error of [`connect`] about a kubeconfig.
#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let files = Files::new();
    let error = connect(&files.access(text)).unwrap_err().to_string();
    let path = files.folder.path().join("kubeconfig");
    assert!(
        error.starts_with(&format!("kubeconfig {}: ", path.display())),
        "{error}"
    );
    for part in expected {
        assert!(error.contains(part), "{error}: no {part}");
    }
}

#[test]
fn unusable_kubeconfigs_are_refused_by_name() {
    let api = with_token();
    let of = |user: serde_json::Value| kubeconfig(&api, &user);
    refused("", &["current context"]);
    refused("a: [", &["YAML"]);
    refused(
        &of(json!({})),
        &["certificate authority", "ca.crt", "No such file"],
    );
    let inline = api.kubeconfig();
    refused(
        &inline.replace("current-context: mini", "current-context: other"),
        &["other"],
    );
    refused(
        &inline.replace("cluster: mini", "cluster: other"),
        &["other"],
    );
    refused(&inline.replace("server:", "servant:"), &["cluster url"]);
    refused(
        &inline.replace(
            "certificate-authority-data: ",
            "certificate-authority-data: '%%' #",
        ),
        &["certificate authority", "base64"],
    );
    refused(
        &inline.replace("token: \"first\"", "tokenFile: /nowhere/token"),
        &["/nowhere/token", "No such file"],
    );
    refused(
        &inline.replace(
            "token: \"first\"",
            "{client-certificate: /nowhere/a, client-key: /nowhere/b}",
        ),
        &["kubeconfig"],
    );
    refused(
        &inline.replace(
            "token: \"first\"",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere/plugin, interactiveMode: Never}",
        ),
        &["exec", "No such file"],
    );
}

#[test]
fn missing_files_are_named() {
    let files = Files::new();
    let access = Access {
        kubeconfig: Some(files.folder.path().join("none")),
        ..Access::default()
    };
    let error = connect(&access).unwrap_err().to_string();
    assert!(
        error.contains("none") && error.contains("No such file"),
        "{error}"
    );
    let access = Access {
        master: Some("https://bad host".to_owned()),
        ..Access::default()
    };
    let error = connect(&access).unwrap_err().to_string();
    assert!(
        error.starts_with("API server address \"https://bad host\": "),
        "{error}"
    );
}

#[test]
fn no_error_shows_what_is_in_the_file() {
    let files = Files::new();
    let text = "users:\n- name: u\n  user:\n    token: secret-1\n    a: [\n    b: secret-2\n";
    let error = connect(&files.access(text)).unwrap_err().to_string();
    assert!(
        error.contains("line ") && !error.contains("secret"),
        "{error}"
    );
}

/// A proxy that connects each client to the server that it names, and counts the clients.
fn proxy() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let clients = Arc::new(AtomicUsize::new(0));
    let count = clients.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, count) = (client.unwrap(), count.clone());
            thread::spawn(move || tunnel(&client, &count));
        }
    });
    (port, clients)
}

/// Carries the bytes of one connection until it ends.
fn tunnel(mut client: &TcpStream, count: &AtomicUsize) -> Option<()> {
    let mut head = BufReader::new(client).lines().map_while(Result::ok);
    let first = head.next()?;
    head.take_while(|it| !it.is_empty()).for_each(drop);
    let server = first.strip_prefix("CONNECT ")?.split(' ').next()?;
    let server = TcpStream::connect(server).ok()?;
    count.fetch_add(1, Relaxed);
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    thread::scope(|scope| {
        scope.spawn(|| copy(&mut &*client, &mut &server).map(|_| server.shutdown(Shutdown::Both)));
        let _ = copy(&mut &server, &mut &*client);
        let _ = client.shutdown(Shutdown::Both);
    });
    Some(())
}

#[test]
fn proxy_of_the_cluster_is_used() {
    let (api, files) = (with_token(), Files::new());
    let (port, clients) = proxy();
    let text = api.kubeconfig();
    let with_proxy = format!("  cluster:\n    proxy-url: http://127.0.0.1:{port}\n");
    let text = text.replacen("  cluster:\n", &with_proxy, 1);
    follows(&files.access(&text));
    assert!(clients.load(Relaxed) >= 4);
}
