//! `toolgate call`: one tool, called as an agent would call it.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

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
        desk.print_json(&called.shown())?;
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
