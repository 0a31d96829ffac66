//! `toolgate call`: calls a tool, or the tools that a text calls, as an agent would.

mod gateway_result;
mod interactive;
mod text;

use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::bytes;
use crate::config::secrets::Secrets;
use crate::failure::{Failure as Cause, RequestError};
use crate::gate::{CallOptions, CallOutcome};
use crate::gateway::OUTCOME;
use crate::json::JsonObject;
use crate::logic::Supervisor;
use crate::logic::types::execution::{Code, ToolCall};
use crate::session::{RequestTimeouts, Session, SessionRequest};
use crate::words::NamedCase;
use serde_json::json;

use super::context::{CliContext, ServerArgs};
use super::error::{self, CliError};
use super::printer::Printer;
use super::read::read_text;
use super::remote::{GatewayArgs, RemoteGateway};
use super::status;
use super::terminal::{CallProgressBar, TerminalApprover};
use super::{input, style};
use gateway_result::GatewayResult;

/// The arguments of `toolgate call`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The tool: server.tool, server__tool, mcp__server__tool or mcp_server_tool
    #[arg(required_unless_present = "text")]
    name: Option<String>,
    /// Its arguments, as JSON, YAML, `key: value` pairs or plain text; @FILE reads them from a file, - from standard input
    #[arg(allow_negative_numbers = true)]
    pub arguments: Vec<String>,
    /// Make the calls that a model wrote in this text, in order, and print an observation for each; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    text: Option<PathBuf>,
    /// With --text, also make calls that the text only mentions or quotes
    #[arg(long, requires = "text")]
    loose: bool,
    /// Ask at the terminal for the arguments that are missing
    #[arg(long, short, conflicts_with_all = ["text", "gateway"])]
    interactive: bool,
    #[command(flatten)]
    pub servers: ServerArgs,
    /// Cut the text to this many bytes, such as 64KiB; 0 prints all of it
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub max_result_bytes: Option<u64>,
    /// Record the call in this folder, for `toolgate replay` and `toolgate explain`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    // Last, because its help heading applies to all options that follow.
    #[command(flatten)]
    pub gateway: GatewayArgs,
}

/// What to call.
pub(super) enum CallInput {
    /// One tool.
    Tool(WrittenCall),
    /// Whatever this text calls.
    Text(String),
}

/// A call as a model wrote it.
pub(super) struct WrittenCall {
    name: String,
    arguments: String,
}

impl Args {
    /// Reads what to call: as typed, or from a file or standard input.
    pub(super) fn read_input(&self) -> Result<CallInput, CliError> {
        match (&self.text, &self.name) {
            (Some(file), _) => Ok(CallInput::Text(read_text(Some(file))?)),
            (None, Some(name)) => {
                let arguments = read_arguments(&self.arguments)?;
                Ok(CallInput::Tool(WrittenCall { name: name.clone(), arguments }))
            }
            (None, None) => Err(CliError::usage("NAME is missing: say which tool to call")),
        }
    }
}

/// Makes the calls and prints their answers.
pub(super) async fn run(
    context: &CliContext,
    args: &Args,
    input: CallInput,
    logic: impl FnOnce() -> Result<Supervisor, CliError>,
) -> Result<ExitCode, CliError> {
    let call = match input {
        CallInput::Tool(call) if args.interactive => interactive::complete(context, call).await?,
        CallInput::Tool(call) => call,
        CallInput::Text(text) => return text::run(context, args, &text, &mut logic()?).await,
    };
    let (name, ends_early) = (call.name.clone(), ends_early(&call.arguments));
    let called = make(context, args, call).await?;
    if args.servers.json {
        context.print_json(&called.as_json())?;
    } else {
        print(context, &called)?;
        context.note_suggestion(called.result.code, &name, &called.result.text);
        if called.result.code == Code::InvalidArguments && ends_early {
            style::write_note("the arguments look like JSON, but end early");
        }
    }
    Ok(ExitCode::from(exit_code(&called)))
}

/// Returns the exit code of a call; a server that cannot be used because its entry is wrong is a wrong configuration.
fn exit_code(called: &CallOutcome) -> u8 {
    let failure = called.failure.as_ref().map(|failed| &failed.failure);
    if called.result.code == Code::ServerUnavailable && matches!(failure, Some(Cause::Misconfigured(_))) {
        return error::USAGE;
    }
    error::exit_code(called.result.code)
}

async fn make(context: &CliContext, args: &Args, call: WrittenCall) -> Result<CallOutcome, CliError> {
    let bar = CallProgressBar::new(&call.name);
    let options = CallOptions {
        timeout: args.servers.timeout,
        events: bar.listener(context),
        approve: Some(Arc::new(TerminalApprover(Arc::clone(context.gate.registry())))),
        ..CallOptions::default()
    };
    Ok(context.gate.call(ToolCall::new(call.name, call.arguments), &options).await?)
}

/// Prints a tool's answer, even one that reports an error, to standard output, and everything else to standard error.
fn print(context: &CliContext, called: &CallOutcome) -> Result<(), CliError> {
    let result = &called.result;
    match result.code {
        Code::ToolError if result.text.is_empty() => {
            style::write_error("tool-error", "the tool failed without a message");
            Ok(())
        }
        Code::Ok | Code::ToolError => context.print(&result.text),
        code => {
            let output = called.failure.as_ref().map(RequestError::server_output).unwrap_or_default();
            print_failure(context, code, &result.text, output);
            if let Some(data) = called.rpc_error().and_then(|error| error.data.as_deref()) {
                print_error_data(&context.gate.cut(&context.clean(data.get()))?);
            }
            Ok(())
        }
    }
}

/// Prints why a call failed, and what the server wrote along with it, which the text for the model leaves out.
fn print_failure(printer: &Printer, code: Code, text: &str, output: &str) {
    style::write_error(code.name(), &printer.clean(text));
    if !output.is_empty() {
        style::write_stderr(format_args!("it last wrote:\n{}", printer.clean(output)));
    }
}

/// Prints the data of an error, such as a URL to open, which a person may need.
fn print_error_data(data: &str) {
    style::write_stderr(format_args!("details:\n{data}"));
}

/// Makes the calls through a running gateway, which finds the tools and reads the arguments.
pub(super) async fn run_at_gateway(
    args: &Args,
    input: CallInput,
    logic: &mut Supervisor,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    if !args.servers.server.is_empty() {
        let text = "--server cannot be used with --gateway: the name of the tool says which server is meant";
        return Err(CliError::usage(text));
    }
    if args.record.is_some() {
        let text = "--record cannot be used with --gateway: start the gateway with --record to record its calls";
        return Err(CliError::usage(text));
    }
    let limit = args.servers.timeout;
    let remote = RemoteGateway::find(&args.gateway, limit.unwrap_or(CONNECT), secrets).await?;
    let session = remote.session(limit.unwrap_or(CONNECT)).await?;
    let called = match input {
        CallInput::Tool(call) => Ok(make_at_gateway(&remote, &session, args, call, logic).await?),
        CallInput::Text(text) => Err(text::run_at_gateway(&remote, &session, args, &text, logic).await?),
    };
    session.close().await;
    let answered = match called {
        Ok(answered) => answered,
        Err(code) => return Ok(code),
    };
    if args.servers.json {
        remote.printer.print_json(&answered.to_json())?;
    } else {
        match answered.code {
            Code::Ok | Code::ToolError => remote.printer.print(&answered.text)?,
            code => {
                print_failure(&remote.printer, code, &answered.text, answered.stderr().as_deref().unwrap_or_default());
                answered.error_data().iter().for_each(|data| print_error_data(&remote.printer.clean(data.get())));
            }
        }
    }
    Ok(ExitCode::from(error::exit_code(answered.code)))
}

async fn make_at_gateway(
    remote: &RemoteGateway,
    session: &Session,
    args: &Args,
    call: WrittenCall,
    logic: &mut Supervisor,
) -> Result<GatewayResult, CliError> {
    let bar = CallProgressBar::new(&call.name);
    let mut params = JsonObject::default();
    params.set("name", &call.name);
    params.set("arguments", &call.arguments);
    params.set("_meta", &json!({OUTCOME: true}));
    let request = SessionRequest {
        method: "tools/call",
        params: &params.to_text(),
        timeouts: RequestTimeouts::of(args.servers.timeout.unwrap_or(PATIENCE)),
        progress: bar.progress(&remote.printer),
    };
    let reply = tokio::select! {
        reply = session.request(request) => reply,
        never = note_wait(remote, &call.name, &bar) => match never {},
    };
    let reply = reply.map_err(|failed| match failed.failure {
        Cause::Closed if failed.sent => CliError::OutcomeUnknown(format!(
            "the gateway at {} stopped before it answered: the tool may or may not have run",
            remote.name
        )),
        _ => remote.failure(&failed),
    })?;
    drop(bar);
    let mut answered = GatewayResult::read(reply.json(), logic)?;
    if let Some(most) = args.max_result_bytes {
        answered.cut(logic, most)?;
    }
    Ok(answered)
}

/// Reports whether a text is the beginning of JSON.
fn ends_early(arguments: &str) -> bool {
    let looks_like_json = arguments.trim_start().starts_with(['{', '[']);
    looks_like_json && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_err_and(|error| error.is_eof())
}

/// Says on a terminal, once a call has shown nothing for a while, which server it waits for.
async fn note_wait(remote: &RemoteGateway, name: &str, bar: &CallProgressBar) -> Infallible {
    if std::io::stderr().is_terminal() {
        tokio::time::sleep(SILENCE).await;
        if !bar.is_shown() {
            style::write_note(&remote.printer.clean(&status::describe_wait(remote, name).await));
        }
    }
    std::future::pending().await
}

/// Returns the text of the arguments: as typed, or from a file or standard input.
pub(super) fn read_arguments(arguments: &[String]) -> Result<String, CliError> {
    match arguments {
        [] => Ok(String::new()),
        [one] if one == "-" => input::read_text(Path::new("-"), "the arguments"),
        [one] => match one.strip_prefix('@') {
            // `@@` is an escaped `@`.
            Some(rest) if rest.starts_with('@') => Ok(rest.to_owned()),
            Some(file) => input::read_text(Path::new(file), "the arguments"),
            None => Ok(one.clone()),
        },
        // Pairs that the shell split go on separate lines; other words form a sentence.
        [first, ..] if is_key(first) => Ok(pairs(arguments)),
        many if many.iter().all(|part| part.contains(['=', ':'])) => Ok(many.join("\n")),
        many => Ok(many.join(" ")),
    }
}

/// Joins words into pairs: the word after a key is its value, and so are all words up to the next key.
fn pairs(words: &[String]) -> String {
    let mut text = String::new();
    let mut after_key = false;
    for word in words {
        let begins = !after_key && is_key(word);
        // After a comma, the next pair may stay on the same line.
        let between = if begins && !text.ends_with(',') { "\n" } else { " " };
        if !text.is_empty() {
            text.push_str(between);
        }
        text.push_str(word);
        after_key = begins;
    }
    text
}

/// Reports whether the word is a key whose value is the next word, such as `city:`.
fn is_key(word: &str) -> bool {
    let name = word.strip_suffix(':').unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_alphanumeric() || "_.-".contains(next))
}

/// How long connecting to a gateway may take.
const CONNECT: Duration = Duration::from_secs(30);
/// The limit for a gateway that never answers; the gateway itself limits its servers.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long a call may show nothing before a person is told what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::read_arguments;

    fn of(parts: &[&str]) -> String {
        read_arguments(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn arguments_are_what_was_typed() {
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["a: 1, b: 2"]), "a: 1, b: 2");
        assert_eq!(of(&["a=1", "b=two words"]), "a=1\nb=two words");
        assert_eq!(of(&["hello", "world"]), "hello world");
        assert_eq!(of(&["text:", "a=b"]), "text: a=b");
        assert_eq!(of(&["city:", "Zürich", "days:", "2"]), "city: Zürich\ndays: 2");
        assert_eq!(of(&["city:", "New", "York", "days:", "2"]), "city: New York\ndays: 2");
        assert_eq!(of(&["city:", "Zürich,", "days:", "2"]), "city: Zürich, days: 2");
        assert_eq!(of(&["text:", "see", "http://x:80/", "or", "a=b"]), "text: see http://x:80/ or a=b");
        assert_eq!(of(&["text:", "text:"]), "text: text:");
        assert_eq!(of(&["title=Fix", "bug", "in", "x=y"]), "title=Fix bug in x=y");
        assert_eq!(of(&["@@name"]), "@name");
    }
}
