//! The main loop of the demo server: reads a line and writes its answer.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::era::{CacheHint, DemoEra, HANDSHAKE, WITH_BATCHES, server_info};
use super::message::{DemoError, DemoMessage, DemoParams, DemoResult, response_line};
use super::methods::{self, CAPABILITIES, INSTRUCTIONS};
use super::output::{BatchReply, DemoOutput, ReplyTarget};
use super::sleeps::{RunningSleeps, SleepRequest};
use super::tools::{self, DemoCallOutcome, DemoToolResult};

/// Serves MCP, one message per line, until the input ends; sleeps that still run are dropped.
pub fn serve(mut input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let mut server = DemoServer::new(output);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            server.handle_line(&line)?;
        }
        line.clear();
    }
    Ok(())
}

/// A connection of the demo server.
pub(super) struct DemoServer {
    output: DemoOutput,
    /// The version that the handshake agreed on, if there was one.
    version: Option<&'static str>,
    sleeps: RunningSleeps,
}

/// What a request leads to.
enum RequestOutcome {
    Answer(Box<RawValue>),
    Sleep(SleepRequest),
}

impl DemoServer {
    /// Creates a server that writes its lines to this output.
    pub(super) fn new(output: impl Write + Send + 'static) -> Self {
        DemoServer { output: DemoOutput::new(output), version: None, sleeps: RunningSleeps::default() }
    }

    /// Handles one line of input.
    pub(super) fn handle_line(&mut self, line: &[u8]) -> io::Result<()> {
        let text: Box<RawValue> = match serde_json::from_slice(line) {
            Ok(text) => text,
            Err(error) => return self.write_error(DemoError::parse_error(format!("no JSON: {error}"))),
        };
        if !text.get().starts_with('[') {
            return self.message(&text, &ReplyTarget::Line(self.output.clone()));
        }
        let messages: Vec<Box<RawValue>> = match (self.version, serde_json::from_str(text.get())) {
            (Some(WITH_BATCHES), Ok(messages)) => messages,
            _ => {
                return self
                    .write_error(DemoError::invalid_request(format!("batches are of version {WITH_BATCHES} only")));
            }
        };
        if messages.is_empty() {
            return self.write_error(DemoError::invalid_request("an empty batch".to_owned()));
        }
        let batch = BatchReply::new(self.output.clone());
        messages.iter().try_for_each(|message| self.message(message, &ReplyTarget::Batch(Arc::clone(&batch))))
    }

    fn message(&mut self, text: &RawValue, outlet: &ReplyTarget) -> io::Result<()> {
        let message: DemoMessage = match serde_json::from_str(text.get()) {
            Ok(message) => message,
            Err(error) => {
                return outlet.send(response_line(
                    None,
                    &Err(DemoError::invalid_request(format!("no JSON-RPC message: {error}"))),
                ));
            }
        };
        match (message.method, message.id) {
            (Some(method), Some(id)) => self.request(&id, &method, message.params.as_deref(), outlet),
            (Some(method), None) => {
                self.notification(&method, message.params.as_deref());
                Ok(())
            }
            // Ignore a response, since nothing was asked.
            (None, _) if message.result.is_some() || message.error.is_some() => Ok(()),
            (None, id) => {
                outlet.send(response_line(id.as_deref(), &Err(DemoError::invalid_request("no method".to_owned()))))
            }
        }
    }

    fn request(
        &mut self,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        outlet: &ReplyTarget,
    ) -> io::Result<()> {
        match self.dispatch(method, params) {
            Ok(RequestOutcome::Answer(result)) => outlet.send(response_line(Some(id), &Ok(result))),
            Ok(RequestOutcome::Sleep(sleep)) => {
                self.sleeps.start(id.to_owned(), sleep, outlet.clone(), self.output.clone())
            }
            Err(refusal) => outlet.send(response_line(Some(id), &Err(refusal))),
        }
    }

    fn dispatch(&mut self, method: &str, params: Option<&RawValue>) -> Result<RequestOutcome, DemoError> {
        let params = DemoParams::read(params)?;
        if method == "initialize" {
            return self.initialize(&params).map(RequestOutcome::Answer);
        }
        let era = DemoEra::of(method, &params, self.version.is_some())?;
        if method != "tools/call" {
            return methods::answer(method, &params, era).map(RequestOutcome::Answer);
        }
        Ok(match tools::call(&params)? {
            DemoCallOutcome::Done(result) => RequestOutcome::Answer(era.wrap_result(result, CacheHint::Never)),
            DemoCallOutcome::Sleeping(_) if !self.sleeps.have_room() => {
                let result = DemoToolResult::error("too many sleeps run already; wait for one to end".to_owned());
                RequestOutcome::Answer(era.wrap_result(result, CacheHint::Never))
            }
            DemoCallOutcome::Sleeping(duration) => {
                RequestOutcome::Sleep(SleepRequest { duration, era, token: params.meta.get("progressToken").cloned() })
            }
        })
    }

    fn initialize(&mut self, params: &DemoParams) -> DemoResult {
        let asked = params.protocol_version.as_deref();
        let asked = asked.ok_or_else(|| DemoError::invalid_params("initialize needs a protocolVersion".to_owned()))?;
        let version = HANDSHAKE.into_iter().find(|version| *version == asked).unwrap_or(HANDSHAKE[0]);
        self.version = Some(version);
        let result = json!({
            "protocolVersion": version,
            "capabilities": &*CAPABILITIES,
            "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        });
        Ok(DemoEra::Handshake.wrap_result(result, CacheHint::Never))
    }

    /// Handles a notification; notifications get no answer, so invalid ones are ignored.
    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/cancelled"
            && let Ok(DemoParams { request_id: Some(id), .. }) = DemoParams::read(params)
        {
            self.sleeps.cancel(&id);
        }
    }

    fn write_error(&self, refusal: DemoError) -> io::Result<()> {
        self.output.line(&response_line(None, &Err(refusal)))
    }
}
