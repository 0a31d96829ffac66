//! `toolgate prompts`: what servers have to say for a start, and the getting of it.

use std::process::ExitCode;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate::json::Object;
use toolgate::registry::Link;
use toolgate::session::{Kind, Session};

use super::desk::{Desk, ServerArgs};
use super::failure::Failure;
use super::{call, reply, table};

/// What to list or get.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    pub servers: ServerArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the messages of a prompt
    Get {
        /// The prompt: server.prompt, server__prompt, or its own name where only one server has it
        name: String,
        /// Its arguments, written like those of a tool
        #[arg(allow_negative_numbers = true)]
        arguments: Vec<String>,
        #[command(flatten)]
        servers: ServerArgs,
    },
}

impl Args {
    /// The text of the arguments, where there are any.
    pub fn arguments(&self) -> Result<String, Failure> {
        match &self.command {
            Some(Command::Get { arguments, .. }) => call::text(arguments),
            None => Ok(String::new()),
        }
    }

    /// The options, wherever on the command line they stand.
    pub fn servers(&self) -> ServerArgs {
        match &self.command {
            Some(Command::Get { servers, .. }) => self.servers.clone().or(servers),
            None => self.servers.clone(),
        }
    }
}

/// Lists the prompts, or gets one.
pub async fn run(desk: &Desk, args: &Args, arguments: &str) -> Result<ExitCode, Failure> {
    let servers = args.servers();
    match &args.command {
        Some(Command::Get { name, .. }) => get(desk, name, arguments, &servers).await,
        None => list(desk, &servers).await,
    }
}

#[derive(Serialize)]
struct Listed {
    prompts: Vec<Object>,
    failed: Vec<reply::FailedServer>,
}

async fn list(desk: &Desk, args: &ServerArgs) -> Result<ExitCode, Failure> {
    let found = reply::gather(desk, |session| async move { session.list(Kind::Prompts).await }).await;
    let mut listed = Listed { prompts: Vec::new(), failed: found.failed };
    for (link, listing) in &found.found {
        for item in &listing.items {
            listed.prompts.push(reply::owned(desk, link, item)?);
        }
    }
    if args.json {
        desk.print_json(&listed)?;
    } else {
        let rows = listed.prompts.iter().map(|item| {
            let text = |name| desk.redact(&reply::text(item, name).unwrap_or_default()).into_owned();
            let name = format!("{}__{}", text("server"), text("name"));
            [name, arguments(item), table::first_line(&text("description"))]
        });
        desk.print_drawn(&table::draw(["PROMPT", "ARGUMENTS", "WHAT IT IS"], rows))?;
    }
    Ok(found.code)
}

/// The names of a prompt's arguments; those in brackets can be left out.
fn arguments(prompt: &Object) -> String {
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        #[serde(default)]
        required: bool,
    }
    let arguments: Vec<Argument> =
        prompt.get("arguments").and_then(|arguments| serde_json::from_str(arguments.get()).ok()).unwrap_or_default();
    let shown = arguments.iter().map(|argument| match argument {
        Argument { name, required: true } => name.clone(),
        Argument { name, required: false } => format!("[{name}]"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

async fn get(desk: &Desk, name: &str, arguments: &str, args: &ServerArgs) -> Result<ExitCode, Failure> {
    let (link, session, prompt) = owner(desk, name).await?;
    let mut params = Object::default();
    params.set("name", &prompt);
    params.set("arguments", &strings(&desk.gate.arguments(arguments)?));
    let mut said = reply::ask(desk, &link, &session, "prompts/get", &params, args).await?;
    if args.json {
        said.result.set("server", link.id());
        desk.print_json(&said.result)?;
    } else {
        desk.print_answer(&messages(desk, &said.read("prompts/get")?)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The arguments of prompts are strings, whatever was written.
fn strings(arguments: &str) -> Object {
    let mut out = Object::default();
    let read: serde_json::Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    for (name, value) in &read {
        match value {
            Value::String(text) => out.set(name, text),
            other => out.set(name, &other.to_string()),
        }
    }
    out
}

#[derive(Deserialize)]
struct Messages {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Option<Box<RawValue>>,
}

/// The messages as a conversation.
fn messages(desk: &Desk, Messages { messages }: &Messages) -> Result<String, Failure> {
    let object = |value: &RawValue| Object::read(value.get());
    let mut shown = Vec::with_capacity(messages.len());
    for Message { role, content } in messages {
        let parts = content.as_deref().and_then(object).unwrap_or_default();
        let held = parts.get("resource").and_then(object).unwrap_or_default();
        let said = match reply::text(&parts, "text").or_else(|| reply::text(&held, "text")) {
            Some(text) => text,
            None => desk.gate.text_of(content.as_deref().map_or("null", RawValue::get))?,
        };
        shown.push(format!("{role}: {said}"));
    }
    Ok(shown.join(
        "
",
    ))
}

/// The server and the own name of the prompt that a name means.
async fn owner(desk: &Desk, name: &str) -> Result<(Arc<Link>, Arc<Session>, String), Failure> {
    // The name of a server is known beforehand, so only that server need be started.
    let split = |link: &Link| {
        let rest = name.strip_prefix(link.id())?;
        rest.strip_prefix("__").or_else(|| rest.strip_prefix('.')).map(str::to_owned)
    };
    let links = desk.links();
    let mut named: Vec<_> = links.iter().filter_map(|link| Some((link, split(link)?))).collect();
    named.sort_by_key(|(link, _)| std::cmp::Reverse(link.id().len()));
    for (link, prompt) in named {
        let session = link.session().await.map_err(|why| reply::unavailable(desk, link, &why))?;
        let listing = session.list(Kind::Prompts).await.map_err(|failed| reply::failure(desk, link, &failed))?;
        if has(&listing, &prompt) {
            return Ok((Arc::clone(link), session, prompt));
        }
    }
    let found = reply::gather(desk, |session| async move {
        let listing = session.list(Kind::Prompts).await?;
        Ok((session, listing))
    })
    .await;
    let candidates: Vec<_> = found.found.iter().filter(|(_, (_, listing))| has(listing, name)).collect();
    match candidates.as_slice() {
        [(link, (session, _))] => Ok((Arc::clone(link), Arc::clone(session), name.to_owned())),
        [] => Err(reply::not_found(
            &found.failed,
            format!("no prompt {name:?}; `toolgate prompts` lists those that there are"),
        )),
        several => {
            let names: Vec<_> = several.iter().map(|(link, _)| format!("{}__{name}", link.id())).collect();
            Err(Failure::Usage(format!("{name:?} is a prompt of several servers; write one of: {}", names.join(", "))))
        }
    }
}

fn has(listing: &toolgate::session::Listing, name: &str) -> bool {
    let named = |item: Object| reply::text(&item, "name").is_some_and(|known| known == name);
    listing.items.iter().filter_map(|item| Object::read(item.get())).any(named)
}
