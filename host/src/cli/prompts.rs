//! `toolgate prompts`: lists the prompts of all servers, or gets one.

use std::process::ExitCode;
use std::sync::Arc;

use crate::json::{self, JsonObject};
use crate::registry::Link;
use crate::session::{ListKind, Listing, Session};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::context::{CliContext, ServerArgs};
use super::error::CliError;
use super::requests::{self, FoundLists};
use super::{call, table};

/// The arguments of `toolgate prompts`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<PromptsCommand>,
    #[command(flatten)]
    pub servers: ServerArgs,
}

#[derive(clap::Subcommand)]
enum PromptsCommand {
    /// Print the messages of a prompt
    Get {
        /// The prompt: server.prompt, server__prompt, or its own name if only one server has it
        name: String,
        /// Its arguments, written like those of a tool
        #[arg(allow_negative_numbers = true)]
        arguments: Vec<String>,
        #[command(flatten)]
        servers: ServerArgs,
    },
}

impl Args {
    /// Returns the text of the prompt's arguments, or an empty text.
    pub(super) fn arguments(&self) -> Result<String, CliError> {
        match &self.command {
            Some(PromptsCommand::Get { arguments, .. }) => call::read_arguments(arguments),
            None => Ok(String::new()),
        }
    }

    /// Merges the options from before and after the subcommand.
    pub(super) fn servers(&self) -> ServerArgs {
        match &self.command {
            Some(PromptsCommand::Get { servers, .. }) => self.servers.clone().or(servers),
            None => self.servers.clone(),
        }
    }
}

/// Lists the prompts, or gets one.
pub(super) async fn run(context: &CliContext, args: &Args, arguments: &str) -> Result<ExitCode, CliError> {
    let servers = args.servers();
    match &args.command {
        Some(PromptsCommand::Get { name, .. }) => get(context, name, arguments, &servers).await,
        None => list(context, &servers).await,
    }
}

#[derive(Serialize)]
struct PromptList {
    prompts: Vec<JsonObject>,
    failed: Vec<requests::UnansweredServer>,
}

async fn list(context: &CliContext, args: &ServerArgs) -> Result<ExitCode, CliError> {
    let found = requests::list_all(context, &[ListKind::Prompts]).await;
    let prompts = found.masked_items(context, 0)?;
    if args.json {
        context.print_json(&PromptList { prompts, failed: found.failed })?;
    } else {
        let rows = prompts.iter().map(|item| {
            let text = |name| context.redact(&requests::member_text(item, name).unwrap_or_default()).into_owned();
            let name = format!("{}__{}", text("server"), text("name"));
            [name, format_arguments(item), table::first_line(&text("description"))]
        });
        context.print_colored(&table::draw(&["PROMPT", "ARGUMENTS", "WHAT IT IS"], rows))?;
    }
    Ok(found.code)
}

/// An argument of a prompt, as its server lists it.
#[derive(Deserialize)]
struct PromptArgument {
    name: String,
    #[serde(default)]
    required: bool,
}

fn prompt_arguments(prompt: &JsonObject) -> Vec<PromptArgument> {
    prompt.get("arguments").and_then(|arguments| serde_json::from_str(arguments.get()).ok()).unwrap_or_default()
}

/// Formats the names of a prompt's arguments, with optional ones in brackets.
fn format_arguments(prompt: &JsonObject) -> String {
    let arguments = prompt_arguments(prompt);
    let shown = arguments.iter().map(|argument| match argument {
        PromptArgument { name, required: true } => name.clone(),
        PromptArgument { name, required: false } => format!("[{name}]"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

async fn get(context: &CliContext, name: &str, arguments: &str, args: &ServerArgs) -> Result<ExitCode, CliError> {
    let (link, session, prompt) = find_owner(context, name).await?;
    let mut params = JsonObject::default();
    params.set("name", prompt.get("name").expect("it was found by its name"));
    params.set("arguments", &strings(&context.gate.arguments(arguments, Some(&schema(&prompt)))?));
    let mut result = requests::request_masked(context, &link, &session, "prompts/get", &params, args).await?;
    if args.json {
        result.set("server", link.id());
        context.print_json(&result)?;
    } else {
        context.print_answer(&messages(context, &requests::read_result(&result, "prompts/get")?)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a schema that reads all of a prompt's arguments as strings, and keeps them as written.
fn schema(prompt: &JsonObject) -> String {
    let arguments = prompt_arguments(prompt);
    let text = json!({"type": "string"});
    let properties: serde_json::Map<_, _> =
        arguments.iter().map(|argument| (argument.name.clone(), text.clone())).collect();
    let required: Vec<_> =
        arguments.iter().filter(|argument| argument.required).map(|argument| &argument.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": text}).to_string()
}

/// Converts the arguments to strings; other JSON values become their JSON text.
fn strings(arguments: &str) -> JsonObject {
    let mut out = JsonObject::default();
    for (name, value) in JsonObject::read(arguments).unwrap_or_default().iter() {
        out.set(name, &json::string_value(value).unwrap_or_else(|| value.get().to_owned()));
    }
    out
}

#[derive(Deserialize)]
struct PromptMessages {
    messages: Vec<PromptMessage>,
}

#[derive(Deserialize)]
struct PromptMessage {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Option<Box<RawValue>>,
}

/// Formats the messages as a conversation.
fn messages(context: &CliContext, PromptMessages { messages }: &PromptMessages) -> Result<String, CliError> {
    let object = |value: &RawValue| JsonObject::read(value.get());
    let mut shown = Vec::with_capacity(messages.len());
    for PromptMessage { role, content } in messages {
        let parts = content.as_deref().and_then(object).unwrap_or_default();
        let resource = parts.get("resource").and_then(object).unwrap_or_default();
        let text = match requests::member_text(&parts, "text").or_else(|| requests::member_text(&resource, "text")) {
            Some(text) => text,
            None => context.gate.text_of(content.as_deref().map_or("null", RawValue::get))?,
        };
        shown.push(format!("{role}: {text}"));
    }
    Ok(shown.join("\n"))
}

/// Finds the prompt that a name means, with its server and a session.
async fn find_owner(context: &CliContext, name: &str) -> Result<(Arc<Link>, Arc<Session>, JsonObject), CliError> {
    // The name may contain the id of a server; then only that server is started.
    let split = |link: &Link| {
        let rest = name.strip_prefix(link.id())?;
        rest.strip_prefix("__").or_else(|| rest.strip_prefix('.')).map(str::to_owned)
    };
    let links = context.enabled_links();
    let mut named: Vec<_> = links.iter().filter_map(|link| Some((link, split(link)?))).collect();
    named.sort_by_key(|(link, _)| std::cmp::Reverse(link.id().len()));
    for (link, prompt) in named {
        let session = link.session().await.map_err(|why| requests::unavailable_error(context, link, &why))?;
        let listing =
            session.list(ListKind::Prompts).await.map_err(|failed| requests::request_error(context, link, &failed))?;
        if let Some(prompt) = find(&listing, &prompt) {
            return Ok((Arc::clone(link), session, prompt));
        }
    }
    let found = requests::list_all(context, &[ListKind::Prompts]).await;
    let with_it = |(link, FoundLists { session, lists })| Some((link, session, find(&lists[0], name)?));
    let mut candidates: Vec<_> = found.answered.into_iter().filter_map(with_it).collect();
    match candidates.as_slice() {
        [_] => Ok(candidates.remove(0)),
        [] => Err(requests::not_found(&found.failed, format!("no prompt {name:?}; `toolgate prompts` lists them all"))),
        several => {
            let names: Vec<_> = several.iter().map(|(link, ..)| format!("{}__{name}", link.id())).collect();
            Err(CliError::Usage(format!("{name:?} is a prompt of several servers; write one of: {}", names.join(", "))))
        }
    }
}

fn find(listing: &Listing, name: &str) -> Option<JsonObject> {
    let named = |item: &JsonObject| requests::member_text(item, "name").is_some_and(|known| known == name);
    listing.items.iter().filter_map(|item| JsonObject::read(item.get())).find(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arguments_of_a_prompt_are_sent_as_text() {
        for (read, sent) in [
            (r#"{"a":"x","b":"1.10"}"#, r#"{"a":"x","b":"1.10"}"#),
            (r#"{"a":12345678901234567890123,"b":1.10}"#, r#"{"a":"12345678901234567890123","b":"1.10"}"#),
            (r#"{"a":{"x":1e400},"b":[true, null]}"#, r#"{"a":"{\"x\":1e400}","b":"[true, null]"}"#),
        ] {
            assert_eq!(strings(read).to_text(), sent);
        }
    }
}
