//! The demo server's loop: a line in, its answer out.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::era::{Era, HANDSHAKE, Keep, WITH_BATCHES, server_info};
use super::message::{Answer, Message, Params, Refusal, reply};
use super::methods::{self, CAPABILITIES, INSTRUCTIONS};
use super::output::{Batch, Outlet, Output};
use super::sleeps::{Sleep, Sleeps};
use super::tools::{self, Called, ToolResult};

/// Serves MCP, a message a line, until the input ends. Sleeps that still run then are dropped.
pub fn serve(mut input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let mut server = Server::new(output);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            server.take(&line)?;
        }
        line.clear();
    }
    Ok(())
}

/// One connection of the demo server.
pub(super) struct Server {
    output: Output,
    /// What the handshake agreed on, where there was one.
    version: Option<&'static str>,
    sleeps: Sleeps,
}

/// What a request leads to.
enum Step {
    Answer(Box<RawValue>),
    Sleep(Sleep),
}

impl Server {
    /// A server that writes its lines there.
    pub(super) fn new(output: impl Write + Send + 'static) -> Self {
        Server { output: Output::new(output), version: None, sleeps: Sleeps::default() }
    }

    /// Takes a line.
    pub(super) fn take(&mut self, line: &[u8]) -> io::Result<()> {
        let text: Box<RawValue> = match serde_json::from_slice(line) {
            Ok(text) => text,
            Err(error) => return self.refuse(Refusal::parse(format!("no JSON: {error}"))),
        };
        if !text.get().starts_with('[') {
            return self.message(&text, &Outlet::Line(self.output.clone()));
        }
        let messages: Vec<Box<RawValue>> = match (self.version, serde_json::from_str(text.get())) {
            (Some(WITH_BATCHES), Ok(messages)) => messages,
            _ => return self.refuse(Refusal::request(format!("batches are of version {WITH_BATCHES} only"))),
        };
        if messages.is_empty() {
            return self.refuse(Refusal::request("an empty batch".to_owned()));
        }
        let batch = Batch::new(self.output.clone());
        messages.iter().try_for_each(|message| self.message(message, &Outlet::Batch(Arc::clone(&batch))))
    }

    fn message(&mut self, text: &RawValue, outlet: &Outlet) -> io::Result<()> {
        let message: Message = match serde_json::from_str(text.get()) {
            Ok(message) => message,
            Err(error) => {
                return outlet.answer(reply(None, &Err(Refusal::request(format!("no JSON-RPC message: {error}")))));
            }
        };
        match (message.method, message.id) {
            (Some(method), Some(id)) => self.request(&id, &method, message.params.as_deref(), outlet),
            (Some(method), None) => {
                self.notification(&method, message.params.as_deref());
                Ok(())
            }
            // An answer, though nothing was asked.
            (None, _) if message.result.is_some() || message.error.is_some() => Ok(()),
            (None, id) => outlet.answer(reply(id.as_deref(), &Err(Refusal::request("no method".to_owned())))),
        }
    }

    fn request(&mut self, id: &RawValue, method: &str, params: Option<&RawValue>, outlet: &Outlet) -> io::Result<()> {
        match self.step(method, params) {
            Ok(Step::Answer(result)) => outlet.answer(reply(Some(id), &Ok(result))),
            Ok(Step::Sleep(sleep)) => self.sleeps.start(id.to_owned(), sleep, outlet.clone(), self.output.clone()),
            Err(refusal) => outlet.answer(reply(Some(id), &Err(refusal))),
        }
    }

    fn step(&mut self, method: &str, params: Option<&RawValue>) -> Result<Step, Refusal> {
        let params = Params::read(params)?;
        if method == "initialize" {
            return self.initialize(&params).map(Step::Answer);
        }
        let era = Era::of(method, &params, self.version.is_some())?;
        if method != "tools/call" {
            return methods::answer(method, &params, era).map(Step::Answer);
        }
        Ok(match tools::call(&params)? {
            Called::Done(result) => Step::Answer(era.dress(result, Keep::No)),
            Called::Sleeping(_) if !self.sleeps.have_room() => {
                let result = ToolResult::error("too many sleeps run already; wait for one to end".to_owned());
                Step::Answer(era.dress(result, Keep::No))
            }
            Called::Sleeping(duration) => {
                Step::Sleep(Sleep { duration, era, token: params.meta.get("progressToken").cloned() })
            }
        })
    }

    fn initialize(&mut self, params: &Params) -> Answer {
        let asked = params.protocol_version.as_deref();
        let asked = asked.ok_or_else(|| Refusal::params("initialize needs a protocolVersion".to_owned()))?;
        let version = HANDSHAKE.into_iter().find(|version| *version == asked).unwrap_or(HANDSHAKE[0]);
        self.version = Some(version);
        let result = json!({
            "protocolVersion": version,
            "capabilities": &*CAPABILITIES,
            "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        });
        Ok(Era::Handshake.dress(result, Keep::No))
    }

    /// Notifications are never answered, so one that makes no sense is passed over.
    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/cancelled"
            && let Ok(Params { request_id: Some(id), .. }) = Params::read(params)
        {
            self.sleeps.cancel(&id);
        }
    }

    fn refuse(&self, refusal: Refusal) -> io::Result<()> {
        self.output.line(&reply(None, &Err(refusal)))
    }
}
