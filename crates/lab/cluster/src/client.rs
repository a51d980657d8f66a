//! The client of a lab's API.

mod kinds;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use futures::{AsyncBufReadExt as _, StreamExt as _};
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

pub use kinds::Kind;

use crate::lab_dir::LabDir;

/// The field manager of server-side apply.
const MANAGER: &str = "sluice-lab";

/// Pause between two attempts of [`Client::until`].
const PAUSE: Duration = Duration::from_millis(100);

/// How long one answer may take. The lab's server is on this machine. kube waits 30 s for a connection to a server that does
/// not accept it, and says less.
const ANSWER: Duration = Duration::from_secs(15);

/// The header `Accept` that asks for a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// Server-side apply of a whole object.
    Apply,
}

/// A client of the API of one lab.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
    /// The kinds that discovery told, once it was asked.
    kinds: Mutex<Vec<Arc<Kind>>>,
}

impl Client {
    /// Connects with the kubeconfig of a running lab.
    ///
    /// # Errors
    ///
    /// The lab does not exist or does not run.
    pub fn open(lab_dir: &LabDir) -> anyhow::Result<Self> {
        lab_dir.running()?;
        Self::of(&lab_dir.kubeconfig())
    }

    /// Connects from a process on the lab's LAN, which cannot reach the API's address on the machine.
    ///
    /// # Errors
    ///
    /// The lab has not been served yet.
    pub fn on_lan(lab_dir: &LabDir) -> anyhow::Result<Self> {
        Self::of(&lab_dir.agents_kubeconfig())
    }

    fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            let text = Kubeconfig::read_from(kubeconfig)?;
            let config =
                kube::Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await?;
            anyhow::Ok(kube::Client::try_from(config)?)
        });
        let client = client.with_context(|| kubeconfig.display().to_string())?;
        Ok(Self {
            runtime,
            client,
            kinds: Mutex::default(),
        })
    }

    /// GET of an object or list.
    ///
    /// # Errors
    ///
    /// The server's, in its words.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, None, None)
    }

    /// GET as a table.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn table(&self, path: &str) -> anyhow::Result<Value> {
        let request = http::Request::get(path).header(ACCEPT, TABLE);
        self.send(request.body(Vec::new())?)
    }

    /// GET of text, such as a log.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn text(&self, path: &str) -> anyhow::Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        self.wait(self.client.request_text(request))
    }

    /// PATCH of an object.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn patch(&self, path: &str, patch: Patch, body: &Value) -> anyhow::Result<Value> {
        let (content_type, path) = match patch {
            Patch::Merge => ("application/merge-patch+json", path.to_owned()),
            Patch::Apply => (
                "application/apply-patch+yaml",
                format!("{path}?fieldManager={MANAGER}&force=true&fieldValidation=Strict"),
            ),
        };
        self.ask(Method::PATCH, &path, Some(content_type), Some(body))
    }

    /// POST of an object to a collection.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn create(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Some("application/json"), Some(body))
    }

    /// DELETE of an object, with a grace period of `grace` seconds if given.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn delete(&self, path: &str, grace: Option<u32>) -> anyhow::Result<Value> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace,
        });
        self.ask(
            Method::DELETE,
            path,
            Some("application/json"),
            Some(&options),
        )
    }

    /// Passes each line of a stream to `line` until it returns `false` or the server ends the stream.
    ///
    /// # Errors
    ///
    /// The server's, and those of `line`.
    pub fn lines(
        &self,
        path: &str,
        accept_table: bool,
        mut line: impl FnMut(&str) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut request = http::Request::get(path);
        if accept_table {
            request = request.header(ACCEPT, TABLE);
        }
        let request = request.body(Vec::new())?;
        self.runtime.block_on(async {
            let stream = self.client.request_stream(request).await.map_err(said)?;
            let mut lines = std::pin::pin!(stream.lines());
            while let Some(it) = lines.next().await {
                if !line(&it?)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Calls `done` until it returns a value, at most for `within`.
    ///
    /// # Errors
    ///
    /// The last refusal when the time is over.
    pub fn until<T>(
        &self,
        within: Duration,
        mut done: impl FnMut(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + within;
        loop {
            match done(self) {
                #[expect(clippy::disallowed_methods, reason = "back-off")]
                Err(_) if Instant::now() < deadline => thread::sleep(PAUSE),
                other => return other,
            }
        }
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let body = body.map(serde_json::to_vec).transpose()?;
        self.send(request.body(body.unwrap_or_default())?)
    }

    fn send(&self, request: http::Request<Vec<u8>>) -> anyhow::Result<Value> {
        self.wait(self.client.request::<Value>(request))
    }

    fn wait<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> anyhow::Result<T> {
        self.runtime.block_on(in_time(answer))
    }
}

/// An answer, unless it takes too long.
async fn in_time<T>(answer: impl Future<Output = kube::Result<T>>) -> anyhow::Result<T> {
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(answer) => answer.map_err(said),
        Err(_) => Err(anyhow!(
            "the lab's API does not answer: its server hangs or is stopped; `sluice lab down` ends the lab"
        )),
    }
}

/// The server's message, without the words that the library adds.
fn said(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => anyhow::Error::from(other)
            .context("the lab's API does not answer; `sluice lab list` says whether the lab runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up() {
        let error = in_time(std::future::pending::<kube::Result<()>>()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("hangs or is stopped"), "{error}");
    }
}
