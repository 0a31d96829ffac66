//! `toolgate tools`: what there is to call, for people, for programs, and ready for the API of a model.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;
use toolgate::json::{Object, raw};
use toolgate::logic::types::{catalog::ExposedTool, naming};

use super::desk::{Desk, ServerArgs};
use super::failure::{Failure, SERVER_UNAVAILABLE};
use super::reply::FailedServer;
use super::table;

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

#[derive(Serialize)]
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
    let tools = desk.gate.tools(&style(args.format, desk))?;
    match args.format {
        Some(format) => desk.print_json(&for_api(format, &tools, desk))?,
        None if args.servers.json => {
            let tools = tools.iter().map(|tool| shown(tool, desk)).collect();
            let listed = Listed { tools, failed };
            desk.print_json(&listed)?;
            failed = listed.failed;
        }
        None => table(desk, &tools)?,
    }
    let unusable = !failed.is_empty() && (args.strict || connected == 0);
    Ok(if unusable { ExitCode::from(SERVER_UNAVAILABLE) } else { ExitCode::SUCCESS })
}

fn style(format: Option<Format>, desk: &Desk) -> naming::NamingStyle {
    let fitted = |target| naming::NamingStyle::Fitted(naming::Audience { target, prefix: String::new() });
    match format {
        Some(Format::Openai) => fitted(naming::Target::Openai),
        Some(Format::Anthropic) => fitted(naming::Target::Anthropic),
        Some(Format::Gemini) => fitted(naming::Target::Gemini),
        Some(Format::Mcp) | None => desk.gate.style(),
    }
}

/// What the API of a model takes as it is.
fn for_api(format: Format, tools: &[ExposedTool], desk: &Desk) -> Box<RawValue> {
    let described = |tool: &ExposedTool, schema_key: &str| {
        let mut out = Object::default();
        out.set("name", &tool.name);
        if let Some(description) = &tool.description {
            out.set("description", description);
        }
        let schema = tool.input_schema.as_deref().and_then(Object::read);
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
        Format::Mcp => raw(&one("tools", &tools.iter().map(|tool| renamed(tool, desk)).collect::<Vec<_>>())),
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

/// The server's own definition under the name that is shown.
fn renamed(tool: &ExposedTool, desk: &Desk) -> Object {
    let mut definition = definition(tool, desk);
    definition.set("name", &tool.name);
    if let Some(description) = &tool.description {
        definition.set("description", description);
    }
    definition
}

/// A tool for programs: its name, whose it is, and all that its server says of it.
fn shown(tool: &ExposedTool, desk: &Desk) -> Object {
    let mut out = Object::default();
    out.set("name", &tool.name);
    out.set("server", &tool.tool.server);
    out.set("tool", &tool.tool.tool);
    let mut definition = renamed(tool, desk);
    definition.remove("name");
    out.extend(&definition);
    out
}

fn definition(tool: &ExposedTool, desk: &Desk) -> Object {
    desk.gate.definition(&tool.tool).and_then(|raw| Object::read(raw.get())).unwrap_or_default()
}

fn table(desk: &Desk, tools: &[ExposedTool]) -> Result<(), Failure> {
    let rows = tools.iter().map(|tool| {
        let description = tool.description.as_deref().unwrap_or_default();
        [tool.name.clone(), table::first_line(&desk.redact(description))]
    });
    desk.print_drawn(&table::draw(["TOOL", "WHAT IT DOES"], rows))
}
