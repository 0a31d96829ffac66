//! A connection of the demo server: reads messages, and writes their answers.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;

use super::era::{CacheHint, DemoEra, DemoMessage, DemoParams, WITH_BATCHES};
use super::methods;
use super::output::{Replies, WriteLine};
use super::sleeps::{RunningSleep, SleepRequest};
use super::tools::{self, DemoCallOutcome};
use crate::failure::RpcError;
use crate::lock::lock;
use crate::rpc::code::{INVALID_REQUEST, PARSE_ERROR};
use crate::rpc::{error, result};

/// Serves MCP, one message per line, until the input ends; sleeps that still run are dropped.
pub fn serve(mut input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let output = Mutex::new(output);
    let mut server = DemoServer::new(Arc::new(move |line| {
        let mut output = lock(&output);
        output.write_all(format!("{line}\n").as_bytes())?;
        output.flush()
    }));
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
    output: WriteLine,
    /// The version that the handshake agreed on, if there was one.
    version: Option<&'static str>,
    /// The running sleeps, by request id.
    sleeps: HashMap<String, RunningSleep>,
}

impl DemoServer {
    /// Creates a server that writes its lines to this output.
    pub(super) fn new(output: WriteLine) -> Self {
        DemoServer { output, version: None, sleeps: HashMap::new() }
    }

    /// Handles one line of input.
    pub(super) fn handle_line(&mut self, line: &[u8]) -> io::Result<()> {
        let refuse = |code, message| (self.output)(&error(None, &RpcError::new(code, message)));
        let text: Box<RawValue> = match serde_json::from_slice(line) {
            Ok(text) => text,
            Err(error) => return refuse(PARSE_ERROR, format!("no JSON: {error}")),
        };
        if !text.get().starts_with('[') {
            return self.message(&text, &Replies::new(&self.output, false));
        }
        match (self.version, serde_json::from_str::<Vec<Box<RawValue>>>(text.get())) {
            (Some(WITH_BATCHES), Ok(messages)) if messages.is_empty() => {
                refuse(INVALID_REQUEST, "an empty batch".to_owned())
            }
            (Some(WITH_BATCHES), Ok(messages)) => {
                let replies = Replies::new(&self.output, true);
                messages.iter().try_for_each(|message| self.message(message, &replies))
            }
            _ => refuse(INVALID_REQUEST, format!("batches are of version {WITH_BATCHES} only")),
        }
    }

    fn message(&mut self, text: &RawValue, replies: &Arc<Replies>) -> io::Result<()> {
        let invalid = |id, message| replies.send(error(id, &RpcError::new(INVALID_REQUEST, message)));
        let message: DemoMessage = match serde_json::from_str(text.get()) {
            Ok(message) => message,
            Err(error) => return invalid(None, format!("no JSON-RPC message: {error}")),
        };
        let params = message.params.as_deref();
        match (message.method, message.id.as_deref().map(RawValue::get)) {
            (Some(method), Some(id)) => match self.request(id, &method, params, replies) {
                Ok(Some(answer)) => replies.send(result(id, answer)),
                Ok(None) => Ok(()),
                Err(refusal) => replies.send(error(Some(id), &refusal)),
            },
            (Some(method), None) => {
                self.notification(&method, params);
                Ok(())
            }
            // Ignore a response, since nothing was asked.
            (None, _) if message.result.is_some() || message.error.is_some() => Ok(()),
            (None, id) => invalid(id, "no method".to_owned()),
        }
    }

    /// Returns the result of a request, or `None` for a sleep, which sends its own answer at the end.
    fn request(
        &mut self,
        id: &str,
        method: &str,
        params: Option<&RawValue>,
        replies: &Arc<Replies>,
    ) -> Result<Option<String>, RpcError> {
        let params = DemoParams::read(params)?;
        if method == "initialize" {
            let (version, answer) = methods::initialize(&params)?;
            self.version = Some(version);
            return Ok(Some(answer));
        }
        let era = DemoEra::of(method, &params, self.version.is_some())?;
        if method != "tools/call" {
            return methods::answer(method, &params, era).map(Some);
        }
        let result = match tools::call(&params)? {
            DemoCallOutcome::Done(result) => result,
            DemoCallOutcome::Sleeping(duration) => {
                self.sleeps.retain(|_, sleep| sleep.is_running());
                let token = params.meta.get("progressToken").map(ToOwned::to_owned);
                let sleep = SleepRequest { duration, era, token };
                if self.sleeps.len() < MOST_SLEEPS
                    && let Ok(running) = sleep.start(id.to_owned(), replies)
                {
                    self.sleeps.insert(id.to_owned(), running);
                    return Ok(None);
                }
                tools::error_result("too many sleeps run already; wait for one to end")
            }
        };
        Ok(Some(era.format_result(&result, CacheHint::Never)))
    }

    /// Handles a notification; notifications get no answer, so invalid ones are ignored.
    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/cancelled"
            && let Ok(DemoParams { request_id: Some(id), .. }) = DemoParams::read(params)
        {
            self.sleeps.remove(id.get());
        }
    }
}

/// How many sleeps may run at once, since each needs a thread.
const MOST_SLEEPS: usize = 1000;
