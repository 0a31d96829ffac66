//! `toolgate tools`: what there is to call, for people, for programs, and ready for the API of a model.

mod entry;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate::config::secrets::Secrets;
use toolgate::json::{Object, raw};
use toolgate::logic::Supervisor;
use toolgate::logic::types::naming;

use super::desk::{Desk, ServerArgs};
use super::failure::{Failure, SERVER_UNAVAILABLE};
use super::printer::Printer;
use super::remote::{GatewayArgs, Remote};
use super::reply::FailedServer;
use super::{style, table};
use entry::Entry;

/// Which tools, and in which form.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub servers: ServerArgs,
    /// Print them ready for this API, with names and schemas that it accepts
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Exit with 3 if any server cannot be used
    #[arg(long)]
    strict: bool,
    // Last, since its heading counts for all that follow.
    #[command(flatten)]
    pub gateway: GatewayArgs,
}

/// Whose tools they are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// OpenAI's API: the `tools` of a chat completion
    Openai,
    /// Anthropic's API: the `tools` of a message
    Anthropic,
    /// Gemini's API: the `tools` of a generateContent request
    Gemini,
    /// MCP: the result of `tools/list`
    Mcp,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    tools: Vec<Object>,
    failed: Vec<FailedServer>,
}

/// Lists the tools of all servers; those that cannot be used are warned of.
pub async fn run(desk: &Desk, args: &Args) -> Result<ExitCode, Failure> {
    let mut failed = Vec::new();
    let mut connected = 0_usize;
    for (link, outcome) in desk.connect_all().await {
        match outcome {
            Ok(_) => connected += 1,
            Err(why) => {
                desk.warn(&link, &why);
                failed.push(FailedServer { server: link.id().to_owned(), reason: why.to_string() });
            }
        }
    }
    let style = args.format.and_then(Format::target).map_or_else(|| desk.gate.style(), fitted);
    let entries = Entry::all(desk.gate.tools(&style)?, &desk.gate)?;
    print(desk, args, entries, failed, connected > 0)
}

/// The same of a gateway that runs.
pub async fn run_at_gateway(
    args: &Args,
    logic: impl FnOnce() -> Result<Supervisor, Failure>,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, Failure> {
    let remote = Remote::find(&args.gateway, args.servers.timeout.unwrap_or(LIMIT), secrets).await?;
    let page = remote.get("api/v1/mcp/tools").await?;
    let Listed { tools, failed } = serde_json::from_str(&page).map_err(|error| remote.strange(&error))?;
    let asked = |server: &str| args.servers.server.is_empty() || args.servers.server.iter().any(|id| id == server);
    let mut entries: Vec<_> = tools.into_iter().filter_map(Entry::listed).filter(|tool| asked(&tool.server)).collect();
    let failed: Vec<_> = failed.into_iter().filter(|failed| asked(&failed.server)).collect();
    for FailedServer { server, reason } in &failed {
        let text = remote.printer.clean(&format!("server {server:?}: {reason}"));
        style::say(format_args!("{}: {text}", style::stderr().yellow("warning")));
    }
    let is_there = |id: &&String| {
        entries.iter().any(|tool| &tool.server == *id) || failed.iter().any(|failed| &failed.server == *id)
    };
    if let Some(id) = args.servers.server.iter().find(|id| !is_there(id)) {
        return Err(Failure::NoSuchThing(format!("the gateway has no tools of a server {id:?}")));
    }
    if let Some(target) = args.format.and_then(Format::target) {
        entry::fit(&mut entries, target, &mut logic()?)?;
    }
    let any = !entries.is_empty();
    print(&remote.printer, args, entries, failed, any)
}

fn print(
    printer: &Printer,
    args: &Args,
    tools: Vec<Entry>,
    failed: Vec<FailedServer>,
    any: bool,
) -> Result<ExitCode, Failure> {
    let unusable = !failed.is_empty() && (args.strict || !any);
    match args.format {
        Some(format) => printer.print_json(&for_api(format, &tools))?,
        None if args.servers.json => {
            let tools = tools.iter().map(Entry::shown).collect();
            printer.print_json(&Listed { tools, failed })?;
        }
        None => {
            let rows = tools.iter().map(|tool| {
                let description = tool.description.as_deref().unwrap_or_default();
                [tool.name.clone(), table::first_line(&printer.redact(description))]
            });
            printer.print_drawn(&table::draw(["TOOL", "WHAT IT DOES"], rows))?;
        }
    }
    Ok(if unusable { ExitCode::from(SERVER_UNAVAILABLE) } else { ExitCode::SUCCESS })
}

impl Format {
    /// Whose rules for names and schemas count, where it is not MCP's.
    fn target(self) -> Option<naming::Target> {
        match self {
            Format::Openai => Some(naming::Target::Openai),
            Format::Anthropic => Some(naming::Target::Anthropic),
            Format::Gemini => Some(naming::Target::Gemini),
            Format::Mcp => None,
        }
    }
}

fn fitted(target: naming::Target) -> naming::NamingStyle {
    naming::NamingStyle::Fitted(entry::audience(target))
}

/// What the API of a model takes as it is.
fn for_api(format: Format, tools: &[Entry]) -> Box<RawValue> {
    let described = |tool: &Entry, schema_key: &str| {
        let mut out = Object::default();
        out.set("name", &tool.name);
        if let Some(description) = &tool.description {
            out.set("description", description);
        }
        let schema = tool.schema.as_deref().and_then(Object::read);
        out.set(schema_key, &schema.unwrap_or_else(no_arguments));
        out
    };
    match format {
        Format::Openai => {
            let function = |tool| {
                let mut out = one("type", "function");
                out.set("function", &described(tool, "parameters"));
                out
            };
            raw(&tools.iter().map(function).collect::<Vec<_>>())
        }
        Format::Anthropic => raw(&tools.iter().map(|tool| described(tool, "input_schema")).collect::<Vec<_>>()),
        Format::Gemini => {
            let declarations: Vec<_> = tools.iter().map(|tool| described(tool, "parameters")).collect();
            raw(&[one("functionDeclarations", &declarations)])
        }
        Format::Mcp => raw(&one("tools", &tools.iter().map(Entry::renamed).collect::<Vec<_>>())),
    }
}

fn one<T: Serialize + ?Sized>(name: &str, value: &T) -> Object {
    let mut out = Object::default();
    out.set(name, value);
    out
}

fn no_arguments() -> Object {
    Object::read(r#"{"type":"object","properties":{}}"#).expect("the text is a JSON object")
}

/// How long a gateway may take; it waits for its servers.
const LIMIT: Duration = Duration::from_secs(30);
