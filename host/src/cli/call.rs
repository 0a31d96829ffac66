//! `toolgate call`: one tool, called as an agent would call it.

mod gateway_result;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use toolgate::config::bytes;
use toolgate::config::secrets::Secrets;
use toolgate::failure::{Failure as Cause, RequestError};
use toolgate::gate::{CallOptions, CallOutcome};
use toolgate::gateway::OUTCOME;
use toolgate::json::JsonObject;
use toolgate::logic::Supervisor;
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::session::{RequestTimeouts, SessionRequest};
use toolgate::words::NamedCase;

use super::context::{CliContext, ServerArgs};
use super::error::{self, CliError};
use super::printer::Printer;
use super::remote::{GatewayArgs, RemoteGateway};
use super::style;
use super::terminal::{CallProgressBar, TerminalApprover};
use gateway_result::GatewayResult;

/// What to call, and with what.
#[derive(clap::Args)]
pub struct Args {
    /// The tool: server.tool, server__tool, mcp__server__tool or mcp_server_tool
    name: String,
    /// Its arguments, as JSON, YAML, `key: value` pairs or plain text; @FILE reads them from a file, - from standard input
    #[arg(allow_negative_numbers = true)]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub servers: ServerArgs,
    /// The most bytes of text to print, such as 64KiB, 0 for all of it
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub max_result_bytes: Option<u64>,
    /// Record the call in this folder, for `toolgate replay` and `toolgate explain`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    // Last, since its heading counts for all that follow.
    #[command(flatten)]
    pub gateway: GatewayArgs,
}

/// Calls the tool and prints what it says.
pub async fn run(context: &CliContext, args: &Args, arguments: String) -> Result<ExitCode, CliError> {
    let call = ToolCall::new(args.name.clone(), arguments);
    let bar = CallProgressBar::new(&args.name);
    let options = CallOptions {
        timeout: args.servers.timeout,
        events: bar.listener(context.cleaner()),
        approve: Some(Arc::new(TerminalApprover(Arc::clone(context.gate.registry())))),
        ..CallOptions::default()
    };
    let called = context.gate.call(call, &options).await?;
    drop(bar);
    if args.servers.json {
        context.print_json(&called.as_json())?;
    } else {
        print(context, &called)?;
    }
    Ok(ExitCode::from(error::exit_code(called.result.code)))
}

/// The answer of a tool is the answer, also where it says that it failed; all else is about the call.
fn print(context: &CliContext, called: &CallOutcome) -> Result<(), CliError> {
    let result = &called.result;
    match result.code {
        Code::ToolError if result.text.is_empty() => {
            style::write_stderr(format_args!(
                "{}: the tool failed, and does not say why",
                style::stderr().red("tool-error")
            ));
            Ok(())
        }
        Code::Ok | Code::ToolError => context.print(&result.text),
        code => {
            print_failure(
                context,
                code,
                &result.text,
                called.failure.as_ref().map(RequestError::server_output).unwrap_or_default(),
            );
            if let Some(data) = called.rpc_error().and_then(|error| error.data.as_deref()) {
                print_error_data(&context.gate.cut(&context.clean(data.get()))?);
            }
            Ok(())
        }
    }
}

/// Says why there is no answer. What the model is told has no room for what the server wrote beside; a person wants it.
fn print_failure(printer: &Printer, code: Code, text: &str, words: &str) {
    style::write_stderr(format_args!("{}: {}", style::stderr().red(code.name()), printer.clean(text)));
    if !words.is_empty() {
        style::write_stderr(format_args!("it last wrote:\n{}", printer.clean(words)));
    }
}

/// Says what came with an error: an address to open, or what was wrong. Without it a person could do nothing.
fn print_error_data(data: &str) {
    style::write_stderr(format_args!("it says beside that:\n{data}"));
}

/// The same through a gateway that runs: it finds the tool, reads the arguments and makes the call.
pub async fn run_at_gateway(
    args: &Args,
    arguments: String,
    logic: &mut Supervisor,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    if !args.servers.server.is_empty() {
        let text = "--server is not for a gateway: the name of the tool says which server is meant";
        return Err(CliError::Usage(text.to_owned()));
    }
    if args.record.is_some() {
        let text = "--record is not for a gateway, which records its calls itself: start it with --record";
        return Err(CliError::Usage(text.to_owned()));
    }
    let limit = args.servers.timeout;
    let remote = RemoteGateway::find(&args.gateway, limit.unwrap_or(CONNECT), secrets).await?;
    let session = remote.session(limit.unwrap_or(CONNECT)).await?;
    let bar = CallProgressBar::new(&args.name);
    let mut params = JsonObject::default();
    params.set("name", &args.name);
    params.set("arguments", &arguments);
    params.set("_meta", &json!({OUTCOME: true}));
    let request = SessionRequest {
        method: "tools/call",
        params: &params.to_text(),
        timeouts: RequestTimeouts::of(limit.unwrap_or(PATIENCE)),
        progress: bar.progress(remote.printer.cleaner()),
    };
    let reply = session.request(request).await.map_err(|failed| match failed.failure {
        Cause::Closed if failed.sent => CliError::OutcomeUnknown(format!(
            "the gateway at {} ended before it answered: nobody knows whether the tool ran",
            remote.name()
        )),
        _ => remote.failure(&failed),
    })?;
    drop(bar);
    session.close().await;
    let mut answered = GatewayResult::read(reply.json(), logic)?;
    if let Some(most) = args.max_result_bytes {
        answered.cut(logic, most)?;
    }
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

/// The text of the arguments: what was typed, or what a file or standard input holds.
pub fn read_arguments(arguments: &[String]) -> Result<String, CliError> {
    match arguments {
        [] => Ok(String::new()),
        [one] if one == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            Ok(text)
        }
        [one] => match one.strip_prefix('@') {
            // Twice the sign is the sign itself.
            Some(rest) if rest.starts_with('@') => Ok(rest.to_owned()),
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| CliError::Usage(format!("the arguments in {file:?} cannot be read: {error}"))),
            None => Ok(one.clone()),
        },
        // Pairs that the shell took apart stand on lines of their own; words are a sentence.
        [first, ..] if is_key(first) => Ok(pairs(arguments)),
        many if many.iter().all(|part| part.contains(['=', ':'])) => Ok(many.join("\n")),
        many => Ok(many.join(" ")),
    }
}

/// Words of which the first is a key: each key has the next word for its value, and those after it up to another key.
fn pairs(words: &[String]) -> String {
    let mut text = String::new();
    let mut after_key = false;
    for word in words {
        let begins = !after_key && is_key(word);
        // A comma ends a pair too.
        let between = if begins && !text.ends_with(',') { "\n" } else { " " };
        if !text.is_empty() {
            text.push_str(between);
        }
        text.push_str(word);
        after_key = begins;
    }
    text
}

/// Whether the word is a key whose value is another word: `city:`.
fn is_key(word: &str) -> bool {
    let name = word.strip_suffix(':').unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_alphanumeric() || "_.-".contains(next))
}

/// How long a gateway may take to say who it is.
const CONNECT: Duration = Duration::from_secs(30);
/// The gateway has limits for its servers; this one is for a gateway that never answers.
const PATIENCE: Duration = Duration::from_secs(3600);

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
