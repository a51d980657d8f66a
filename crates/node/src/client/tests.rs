use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

fn listener() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("sluice.sock");
    let listener = UnixListener::bind(&socket).expect("a new file");
    (directory, socket, listener)
}

#[test]
fn a_process_that_never_answers_is_named() {
    let (_directory, socket, _listener) = listener();
    let error = get::<serde_json::Value>(&socket, "/services").expect_err("nobody accepts");
    let ClientError::Silent { process, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(process.pid, Some(std::process::id()));
    assert!(!process.is_stopped);
}

/// A sync of many Services, while the thread of the servers lives.
#[test]
fn a_late_answer_of_a_process_that_lives_is_waited_for() {
    let (_directory, socket, listener) = listener();
    // What is unread when a connection closes would be an error of its client.
    let accept = move |path: &str| {
        let (mut stream, _) = listener.accept().expect("a client");
        let length = format!("GET {path} HTTP/1.0\r\nHost: sluice\r\n\r\n").len();
        stream.read_exact(&mut vec![0; length]).expect("a question");
        stream
    };
    let serve = move || {
        let mut question = accept("/services");
        let mut life = accept("/");
        life.write_all(b"HTTP/1.0 404 Not Found\r\n\r\n")
            .expect("a client");
        question
            .write_all(b"HTTP/1.0 200 OK\r\n\r\n7")
            .expect("a client");
    };
    let server = thread::spawn(serve);
    assert_eq!(get::<u32>(&socket, "/services").expect("an answer"), 7);
    server.join().expect("both were asked");
}

#[test]
fn the_state_is_behind_a_name_with_brackets() {
    assert_eq!(state_of("7 (a b) c) T 1 7 7 0"), Some('T'));
    assert_eq!(state_of("7 (sluice) S 1"), Some('S'));
    assert_eq!(state_of(""), None);
}
