//! `toolgate call`: one tool, called as an agent would call it.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use toolgate::failure::Failed;
use toolgate::gate::{CallOptions, Called};
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::words::Named;

use super::desk::{Desk, ServerArgs};
use super::failure::{self, Failure};
use super::style;
use super::terminal::{AtTerminal, Bar};

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
    /// The most bytes of text to print, 0 for all of it
    #[arg(long, value_name = "BYTES")]
    pub max_result_bytes: Option<u64>,
}

/// Calls the tool and prints what it says.
pub async fn run(desk: &Desk, args: &Args, arguments: String) -> Result<ExitCode, Failure> {
    let call = ToolCall { id: format!("{:016x}", fastrand::u64(..)), name: args.name.clone(), arguments };
    let bar = Bar::new(&args.name);
    let options = CallOptions {
        timeout: args.servers.timeout,
        events: bar.listener(desk.cleaner()),
        approve: Some(Arc::new(AtTerminal)),
        ..CallOptions::default()
    };
    let called = desk.gate.call(call, &options).await?;
    drop(bar);
    if args.servers.json {
        print_json(desk, &called)?;
    } else {
        print(desk, &called)?;
    }
    Ok(ExitCode::from(failure::exit_code(called.result.code)))
}

/// The answer of a tool is the answer, also where it says that it failed; all else is about the call.
fn print(desk: &Desk, called: &Called) -> Result<(), Failure> {
    let result = &called.result;
    match result.code {
        Code::Ok | Code::ToolError => desk.print(&result.text),
        code => {
            let text = desk.clean(&result.text);
            style::say(format_args!("{}: {text}", style::stderr().red(code.name())));
            // What the model is told has no room for the last words of a process; a person wants them.
            if let Some(words) = called.failure.as_ref().map(Failed::last_words).filter(|words| !words.is_empty()) {
                style::say(format_args!("it last wrote:\n{}", desk.clean(words)));
            }
            Ok(())
        }
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    call_id: &'a str,
    name: &'a str,
    server: Option<&'a str>,
    tool: Option<&'a str>,
    text: &'a str,
    content: Vec<Box<RawValue>>,
    structured: Option<Box<RawValue>>,
    is_error: bool,
    code: &'static str,
    attempts: u32,
    truncated: bool,
    latency_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<&'a str>,
    trace: &'a [String],
}

fn print_json(desk: &Desk, called: &Called) -> Result<(), Failure> {
    let result = &called.result;
    let raw = |json: &str| RawValue::from_string(json.to_owned()).ok();
    desk.print_json(&Shown {
        call_id: &result.call_id,
        name: &result.name,
        server: result.tool.as_ref().map(|tool| tool.server.as_str()),
        tool: result.tool.as_ref().map(|tool| tool.tool.as_str()),
        text: &result.text,
        content: called.content().into_iter().filter_map(raw).collect(),
        structured: called.structured().and_then(raw),
        is_error: result.is_error,
        code: result.code.name(),
        attempts: result.attempts,
        truncated: result.truncated,
        latency_ms: u64::try_from(called.latency.as_millis()).unwrap_or(u64::MAX),
        stderr: called.failure.as_ref().map(Failed::last_words).filter(|words| !words.is_empty()),
        trace: &result.trace,
    })
}

/// The text of the arguments: what was typed, or what a file or standard input holds.
pub fn text(arguments: &[String]) -> Result<String, Failure> {
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
                .map_err(|error| Failure::Usage(format!("the arguments in {file:?} cannot be read: {error}"))),
            None => Ok(one.clone()),
        },
        // Pairs that the shell took apart stand on lines of their own; words are a sentence.
        many if many.iter().all(|part| part.contains(['=', ':'])) => Ok(many.join("\n")),
        many => Ok(many.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    fn of(parts: &[&str]) -> String {
        text(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn arguments_are_what_was_typed() {
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["a: 1, b: 2"]), "a: 1, b: 2");
        assert_eq!(of(&["a=1", "b=two words"]), "a=1\nb=two words");
        assert_eq!(of(&["hello", "world"]), "hello world");
        assert_eq!(of(&["@@name"]), "@name");
    }
}
