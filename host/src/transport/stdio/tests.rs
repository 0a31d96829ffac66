//! Real subprocesses: shells, `cat` and Python.

mod ending;
mod reading;
mod starting;
mod watchdog;
mod writing;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::super::endpoint::Program;
use super::super::waiting::{DEADLINE, until};
use super::super::{Outgoing, Receive, RequestId, Transport};
use super::open;
use crate::failure::{Failure, ProcessExit, RequestError};
use crate::rpc::Message;

/// A grace period that no server in a test uses up, unless the test is about that.
const PATIENT: Duration = Duration::from_secs(50);

fn program(command: &str, args: &[&str]) -> Program {
    let path = std::env::var("PATH").unwrap_or_default();
    Program {
        command: command.to_owned(),
        args: args.iter().map(|arg| arg.to_string()).collect(),
        env: BTreeMap::from([("PATH".to_owned(), path)]),
        working_dir: None,
        max_message_bytes: 64 << 20,
        grace: PATIENT,
        secrets: Default::default(),
    }
}

fn shell(script: &str) -> Program {
    program("sh", &["-c", script])
}

fn python(script: &str) -> Program {
    program("python3", &["-u", "-c", script])
}

fn with_grace(grace: Duration, program: Program) -> Program {
    Program { grace, ..program }
}

enum Event {
    Message(String),
    Closed(RequestError),
}

/// The events that the receiver got.
struct Events(mpsc::UnboundedReceiver<Event>);

struct Told(mpsc::UnboundedSender<Event>);

impl Receive for Told {
    fn receive(&self, message: Message, exchange: Option<RequestId>) {
        assert_eq!(exchange, None);
        let _ = self.0.send(Event::Message(message.text().to_owned()));
    }

    fn closed(&self, why: RequestError) {
        let _ = self.0.send(Event::Closed(why));
    }
}

impl Events {
    async fn message(&mut self) -> String {
        match in_time(self.0.recv()).await {
            Some(Event::Message(text)) => text,
            Some(Event::Closed(why)) => panic!("closed: {why:?}"),
            None => panic!("nobody is left to send messages"),
        }
    }

    /// Returns all messages until the end, and the end, which must come once.
    async fn rest(&mut self) -> (Vec<String>, RequestError) {
        let mut messages = Vec::new();
        let why = loop {
            match in_time(self.0.recv()).await.expect("the end is told") {
                Event::Message(text) => messages.push(text),
                Event::Closed(why) => break why,
            }
        };
        assert!(in_time(self.0.recv()).await.is_none(), "the end is the end");
        (messages, why)
    }

    async fn end(&mut self) -> RequestError {
        self.rest().await.1
    }
}

async fn start(program: &Program) -> (Arc<dyn Transport>, Events) {
    let (sender, events) = mpsc::unbounded_channel();
    let transport = open(program, Arc::new(Told(sender))).await.unwrap();
    (transport, Events(events))
}

fn outgoing(text: impl Into<String>) -> Outgoing {
    Outgoing { text: text.into(), request: None, headers: Vec::new(), repeatable: false }
}

/// Returns the end of a process that has read nothing.
fn exited(code: i32, stderr: &str) -> Failure {
    let (code, stderr) = (Some(code), stderr.to_owned());
    Failure::Exited(ProcessExit { code, stderr, read_nothing: true, ..ProcessExit::default() })
}

/// Returns the end of a process that has read something and has no standard error.
fn exited_after_reading(code: i32) -> Failure {
    Failure::Exited(ProcessExit { code: Some(code), ..ProcessExit::default() })
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it comes in time")
}

/// Reports whether the process runs; a zombie does not, since we cannot reap one that is not our child.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn until_ended(pids: &[u32]) {
    until(&format!("the end of {pids:?}"), || pids.iter().all(|pid| !runs(*pid))).await;
}

/// Parses the numbers of a message such as `[1, 2]`.
fn numbers(message: &str) -> Vec<u32> {
    serde_json::from_str(message).unwrap()
}
