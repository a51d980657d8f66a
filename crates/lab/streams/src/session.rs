//! A program with a client, whatever protocol the client speaks.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::program::{End, Output, Program, Size, Start};

/// How long output is read after the end of a program: what it started in the background may hold the streams open.
const DRAIN: Duration = Duration::from_millis(500);

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Stdin(Bytes),
    StdinEnd,
    Resize(Size),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Stdout,
    Stderr,
}

/// What a client gets. The end is the last message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Output(Channel, Bytes),
    End(End),
}

/// Starts a program and runs it until it ends or the client is gone, which closes `input` or `output`.
pub(crate) async fn run(start: Start, input: Receiver<Input>, output: Sender<Message>) {
    let started = spawn_blocking(start).await;
    let started = started.unwrap_or_else(|error| Err(error.to_string()));
    let program = match started {
        Ok(it) => it,
        Err(why) => {
            // The client may be gone.
            let _ = output.send(Message::End(End::Failed(why))).await;
            return;
        }
    };
    let Program {
        stdin,
        stdout,
        stderr,
        resize,
        end,
    } = program;
    let work = async {
        let copies = async {
            tokio::join!(
                copy(stdout, Channel::Stdout, &output),
                copy(stderr, Channel::Stderr, &output)
            );
        };
        let (mut copies, mut end) = (pin!(copies), pin!(end));
        let ended = tokio::select! {
            () = &mut copies => end.await,
            ended = &mut end => {
                let _ = timeout(DRAIN, copies).await;
                ended
            }
        };
        let _ = output.send(Message::End(ended)).await;
    };
    tokio::select! {
        () = work => {}
        () = feed(input, stdin, resize) => {}
        () = output.closed() => {}
    }
}

async fn copy(from: Option<Output>, channel: Channel, to: &Sender<Message>) {
    let Some(mut from) = from else { return };
    while let Some(piece) = from.next().await {
        if to.send(Message::Output(channel, piece)).await.is_err() {
            return;
        }
    }
}

/// Gives a program what the client sends. Returns when the client is gone.
async fn feed(
    mut input: Receiver<Input>,
    mut stdin: Option<Box<dyn tokio::io::AsyncWrite + Send + Unpin>>,
    resize: Option<Box<dyn Fn(Size) + Send + Sync>>,
) {
    while let Some(it) = input.recv().await {
        match (it, &mut stdin, &resize) {
            (Input::Stdin(bytes), Some(to), _) => {
                // The program may have closed its input, and go on.
                let written = async {
                    to.write_all(&bytes).await?;
                    to.flush().await
                };
                if written.await.is_err() {
                    stdin = None;
                }
            }
            (Input::StdinEnd, Some(to), _) => {
                let _ = to.shutdown().await;
                stdin = None;
            }
            (Input::Resize(size), _, Some(resize)) => resize(size),
            _ => {}
        }
    }
}
