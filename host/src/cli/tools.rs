//! `toolgate tools`: lists tools for people, for programs, or for the API of a model provider.

mod cost;
mod entry;
mod finding;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::secrets::Secrets;
use crate::gate::ToolCosts;
use crate::json::{JsonObject, to_raw};
use crate::lock::lock;
use crate::logic::Supervisor;
use crate::logic::types::naming;
use crate::registry::Lease;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::context::{CliContext, ServerArgs};
use super::error::CliError;
use super::printer::Printer;
use super::read::CallableTools;
use super::remote::{GatewayArgs, RemoteGateway};
use super::requests::{self, ServerResults, UnansweredServer};
use super::{style, table};
use entry::ToolEntry;

/// The arguments of `toolgate tools`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub servers: ServerArgs,
    /// Find the tools that do this, the best first
    #[arg(long, value_name = "WORDS", conflicts_with = "cost")]
    search: Option<String>,
    /// Print how many tokens the definitions of the tools take before a model has said a word
    #[arg(long, conflicts_with = "format")]
    cost: bool,
    /// Print them for this API, with names and schemas that it accepts
    #[arg(long, value_enum)]
    format: Option<ApiFormat>,
    /// Exit with 3 if any server cannot be used, or with 2 if its configuration is wrong
    #[arg(long)]
    strict: bool,
    // Last, because its help heading applies to all options that follow.
    #[command(flatten)]
    pub gateway: GatewayArgs,
}

/// The API that the tools are printed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ApiFormat {
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
struct ToolsOutput {
    tools: Vec<JsonObject>,
    failed: Vec<UnansweredServer>,
}

/// Lists the tools of all servers, and warns about servers that cannot be used.
pub(super) async fn run(
    context: &CliContext,
    args: &Args,
    logic: impl FnOnce() -> Result<Supervisor, CliError>,
) -> Result<ExitCode, CliError> {
    let style = args.format.and_then(ApiFormat::target).map_or_else(|| context.gate.style(), fitted_style);
    // A person need not wait for the slowest server. Programs get the order of the configuration.
    let is_plain = !args.cost && !args.servers.json && args.format.is_none() && args.search.is_none();
    if is_plain && std::io::stdout().is_terminal() {
        let (servers, printed) = print_as_they_answer(context, &style).await?;
        if printed == 0 {
            context.note_nothing("tools", !servers.failed.is_empty());
        }
        return Ok(exit_code(args, &servers.failed, !servers.answered.is_empty()));
    }
    let servers = ServerResults::new(context, context.connect_all().await);
    if args.cost {
        cost::print(context, &context.gate.tool_costs(Some(&style))?, args.servers.json)?;
        return Ok(exit_code(args, &servers.failed, !servers.answered.is_empty()));
    }
    let mut entries = ToolEntry::all(context.gate.tools(&style)?, &context.gate)?;
    if entries.is_empty() && !args.servers.json && args.format.is_none() {
        context.note_nothing("tools", !servers.failed.is_empty());
        return Ok(exit_code(args, &servers.failed, !servers.answered.is_empty()));
    }
    if let Some(query) = &args.search {
        entries = finding::find(entries, query, &mut logic()?)?;
    }
    print(context, args, entries, servers.failed, !servers.answered.is_empty())
}

/// Prints the tools of each server as soon as it has listed them, and returns how many there are.
async fn print_as_they_answer(
    context: &CliContext,
    style: &naming::NamingStyle,
) -> Result<(ServerResults<Lease>, usize), CliError> {
    let printed: Mutex<Result<usize, CliError>> = Mutex::new(Ok(0));
    let outcomes = context.connect_each(|link, waiting| {
        let mut printed = lock(&printed);
        let Ok(before) = *printed else { return };
        *printed = tools_of(context, style, link.id()).and_then(|entries| {
            let (head, rows) = (&HEAD[..2], rows(context, &entries));
            let text = if before == 0 { table::draw(head, rows) } else { table::draw_more(head, rows) };
            waiting.print(|| context.print_colored(&text))?;
            Ok(before + entries.len())
        });
    });
    let outcomes = outcomes.await;
    let printed = printed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    Ok((ServerResults::new(context, outcomes), printed))
}

fn tools_of(context: &CliContext, style: &naming::NamingStyle, server: &str) -> Result<Vec<ToolEntry>, CliError> {
    let mut tools = context.gate.tools(style)?;
    tools.retain(|tool| tool.tool.server == server);
    ToolEntry::all(tools, &context.gate)
}

/// Lists the tools of a running gateway.
pub(super) async fn run_at_gateway(
    args: &Args,
    logic: impl FnOnce() -> Result<Supervisor, CliError>,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let remote = RemoteGateway::find(&args.gateway, args.servers.timeout.unwrap_or(LIMIT), secrets).await?;
    let ToolsOutput { tools, failed } = ask_gateway(&remote).await?;
    let asked = |server: &str| args.servers.server.is_empty() || args.servers.server.iter().any(|id| id == server);
    let mut entries: Vec<_> =
        tools.into_iter().filter_map(ToolEntry::from_json).filter(|tool| asked(&tool.server)).collect();
    let failed: Vec<_> = failed.into_iter().filter(|failed| asked(&failed.server)).collect();
    for UnansweredServer { server, reason, .. } in &failed {
        remote.printer.warn(&format!("server {server:?}: {reason}"));
    }
    let is_there = |id: &&String| {
        entries.iter().any(|tool| &tool.server == *id) || failed.iter().any(|failed| &failed.server == *id)
    };
    if let Some(id) = args.servers.server.iter().find(|id| !is_there(id)) {
        return Err(CliError::NotFound(format!("the gateway shows no tools of server {id:?}")));
    }
    let any = !entries.is_empty();
    if args.cost {
        let page = remote.get("api/v1/mcp/tools/cost").await?;
        let mut costs: ToolCosts = serde_json::from_str(&page).map_err(|error| remote.unexpected_answer(&error))?;
        costs.servers.retain(|cost| asked(&cost.server));
        cost::print(&remote.printer, &costs, args.servers.json)?;
        return Ok(exit_code(args, &failed, any));
    }
    let target = args.format.and_then(ApiFormat::target);
    if args.search.is_some() || target.is_some() {
        let mut logic = logic()?;
        if let Some(target) = target {
            entry::fit(&mut entries, target, &mut logic)?;
        }
        if let Some(query) = &args.search {
            entries = finding::find(entries, query, &mut logic)?;
        }
    }
    print(&remote.printer, args, entries, failed, any)
}

async fn ask_gateway(remote: &RemoteGateway) -> Result<ToolsOutput, CliError> {
    let page = remote.get("api/v1/mcp/tools").await?;
    serde_json::from_str(&page).map_err(|error| remote.unexpected_answer(&error))
}

/// Returns the tools of a gateway as a model may call them.
pub(super) async fn gateway_tools(remote: &RemoteGateway) -> Result<CallableTools, CliError> {
    let ToolsOutput { tools, failed } = ask_gateway(remote).await?;
    for UnansweredServer { server, reason, .. } in &failed {
        remote.printer.warn(&format!("server {server:?}: {reason}"));
    }
    let entries = tools.into_iter().filter_map(ToolEntry::from_json);
    Ok(CallableTools::new(entries.map(|entry| (entry.name, entry.tool, entry.schema)).collect()))
}

/// Returns an error if no server can be used, or if one cannot and that matters.
fn exit_code(args: &Args, failed: &[UnansweredServer], any: bool) -> ExitCode {
    let is_unusable = !failed.is_empty() && (args.strict || !any);
    if is_unusable { requests::unusable_code(failed) } else { ExitCode::SUCCESS }
}

fn print(
    printer: &Printer,
    args: &Args,
    tools: Vec<ToolEntry>,
    failed: Vec<UnansweredServer>,
    any: bool,
) -> Result<ExitCode, CliError> {
    let code = exit_code(args, &failed, any);
    match args.format {
        Some(format) => printer.print_json(&to_api_json(format, &tools))?,
        None if args.servers.json => {
            let tools = tools.iter().map(ToolEntry::to_json).collect();
            printer.print_json(&ToolsOutput { tools, failed })?;
        }
        None if tools.is_empty() && args.search.is_some() => style::write_note("no tool fits these words"),
        None if tools.is_empty() && failed.is_empty() => style::write_note("no tools"),
        None => {
            let columns = if args.search.is_some() { 3 } else { 2 };
            printer.print_colored(&table::draw(&HEAD[..columns], rows(printer, &tools)))?;
        }
    }
    Ok(code)
}

/// Returns the lines of the table for people.
fn rows(printer: &Printer, tools: &[ToolEntry]) -> impl Iterator<Item = impl Iterator<Item = String>> {
    tools.iter().map(|tool| {
        let description = tool.description.as_deref().unwrap_or_default();
        let told = [tool.name.clone(), table::first_line(&printer.redact(description))];
        told.into_iter().chain(tool.found.as_ref().map(|found| found.why.clone()))
    })
}

impl ApiFormat {
    /// Returns the target whose rules for names and schemas apply, or none for MCP.
    fn target(self) -> Option<naming::Target> {
        match self {
            ApiFormat::Openai => Some(naming::Target::Openai),
            ApiFormat::Anthropic => Some(naming::Target::Anthropic),
            ApiFormat::Gemini => Some(naming::Target::Gemini),
            ApiFormat::Mcp => None,
        }
    }
}

fn fitted_style(target: naming::Target) -> naming::NamingStyle {
    naming::NamingStyle::Fitted(entry::audience(target))
}

/// Returns the tools as JSON that the API accepts.
fn to_api_json(format: ApiFormat, tools: &[ToolEntry]) -> Box<RawValue> {
    let described = |tool: &ToolEntry, schema_key: &str| {
        let mut out = JsonObject::default();
        out.set("name", &tool.name);
        if let Some(description) = &tool.description {
            out.set("description", description);
        }
        let schema = tool.schema.as_deref().and_then(JsonObject::read);
        out.set(schema_key, &schema.unwrap_or_else(empty_schema));
        out
    };
    match format {
        ApiFormat::Openai => {
            let function = |tool| {
                let mut out = single_member("type", "function");
                out.set("function", &described(tool, "parameters"));
                out
            };
            to_raw(&tools.iter().map(function).collect::<Vec<_>>())
        }
        ApiFormat::Anthropic => to_raw(&tools.iter().map(|tool| described(tool, "input_schema")).collect::<Vec<_>>()),
        ApiFormat::Gemini => {
            let declarations: Vec<_> = tools.iter().map(|tool| described(tool, "parameters")).collect();
            to_raw(&[single_member("functionDeclarations", &declarations)])
        }
        ApiFormat::Mcp => {
            to_raw(&single_member("tools", &tools.iter().map(ToolEntry::renamed_definition).collect::<Vec<_>>()))
        }
    }
}

fn single_member<T: Serialize + ?Sized>(name: &str, value: &T) -> JsonObject {
    let mut out = JsonObject::default();
    out.set(name, value);
    out
}

fn empty_schema() -> JsonObject {
    JsonObject::read(r#"{"type":"object","properties":{}}"#).expect("the text is a JSON object")
}

/// The titles of the table for people; the last one is for what a search found.
const HEAD: [&str; 3] = ["TOOL", "WHAT IT DOES", "WHY"];
/// How long a gateway may take to answer, including its servers.
const LIMIT: Duration = Duration::from_secs(30);
