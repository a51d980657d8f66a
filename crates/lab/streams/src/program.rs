//! A program and its streams, as a session sees them.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::io::AsyncWrite;

/// What a program writes, in pieces of at most [`PIECE`](crate::PIECE) bytes.
pub type Output = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Starts a program; may block. The error is for the client.
pub type Start = Box<dyn FnOnce() -> Result<Program, String> + Send>;

/// The streams that a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub stdin: bool,
    pub stdout: bool,
    /// Without a terminal only.
    pub stderr: bool,
    /// A terminal, which takes sizes.
    pub tty: bool,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u16,
    pub height: u16,
}

impl Size {
    /// Reads `{"Width":80,"Height":24}` (`TerminalSize` in `client-go/tools/remotecommand/resize.go`).
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let size: Value = serde_json::from_slice(text).ok()?;
        let number = |name: &str| u16::try_from(size[name].as_u64()?).ok();
        let (width, height) = (number("Width")?, number("Height")?);
        (width > 0 && height > 0).then_some(Self { width, height })
    }
}

/// A program that runs. Dropping it ends what belongs to the session alone.
pub struct Program {
    /// `None`: what comes is thrown away. Its shutdown is the end of the input.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub resize: Option<Box<dyn Fn(Size) + Send + Sync>>,
    /// How the session ends.
    pub end: Pin<Box<dyn Future<Output = End> + Send>>,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With exit code 0, or a session without an exit code is over.
    Success,
    /// With another exit code.
    Exit(i32),
    /// It could not be started.
    Failed(String),
}

impl End {
    /// The `Status` of protocol versions 4 and 5 (`remotecommand.go` in `k8s.io/cri-streaming`).
    pub(crate) fn status(&self) -> Value {
        match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::Exit(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: {code}"),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(why) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {why}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": why}]},
                "code": 500,
            }),
        }
    }

    /// The text of older versions; `None`: nothing is written.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::Exit(code) => Some(format!("command terminated with exit code {code}")),
            Self::Failed(why) => Some(why.clone()),
        }
    }
}
