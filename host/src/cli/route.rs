//! `toolgate route`: shows which tool a name means, how its arguments are read, and why.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::decide::{Decide, GateId};
use crate::demo;
use crate::eval::EvalServers;
use crate::json::to_raw;
use crate::logic::Supervisor;
use crate::logic::types::{Tool, ToolRef, execution, naming};
use crate::plan::{CallPlan, plan};
use crate::record::CallSurroundings;
use crate::words::{ErrorText, NamedCase};
use serde::Serialize;
use serde_json::value::RawValue;

use super::context::CliContext;
use super::error::{CliError, exit_code};
use super::printer::print_plain;
use super::requests::ServerResults;
use super::{call, input, style};

/// The arguments of `toolgate route`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The name as a model wrote it: server.tool, server__tool, mcp__server__tool, mcp_server_tool
    name: Option<String>,
    /// The arguments as for `call`: JSON, YAML, `key: value` pairs or plain text; @FILE reads them from a file, - from
    /// standard input
    #[arg(allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Use the servers and tools in this file, in the `servers` shape of `eval`, instead of the configured ones
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
    /// Read the arguments with this JSON Schema instead of the tool's own
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Also show the name and schema that this provider would get
    #[arg(long, value_name = "PROVIDER", value_parser = ["openai", "anthropic", "gemini", "cursor", "mcp"])]
    target: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The name and arguments of the example that is shown without any.
const EXAMPLE: (&str, &str) = ("demo__forecast", "city: Zürich, days: 3");

impl Args {
    /// Returns the text of the arguments, read as `call` reads it.
    pub(super) fn arguments(&self) -> Result<String, CliError> {
        call::read_arguments(&self.arguments)
    }
}

/// Reports whether the command is about the configured servers.
pub(super) fn wants_configuration(args: &Args) -> bool {
    args.name.is_some() && args.servers.is_none() && args.schema.is_none()
}

/// Decides a call to servers from a file or to the demo server, and prints the decision.
pub(super) fn run(logic: &mut Supervisor, args: &Args, arguments: String) -> Result<ExitCode, CliError> {
    let mut servers = read_servers(args.servers.as_deref())?;
    let (call, note) = match (&args.name, &args.servers) {
        (Some(name), _) => {
            (new_call(name, arguments), "using the built-in demo server; name others with --servers FILE")
        }
        (None, Some(_)) => {
            return Err(CliError::usage("NAME is missing: say which tool of these servers to route to"));
        }
        (None, None) => (
            new_call(EXAMPLE.0, EXAMPLE.1.to_owned()),
            "an example on the built-in demo server; try: toolgate route demo__add 'a: 1, b: 2'",
        ),
    };
    if args.servers.is_none() {
        style::write_stderr(format_args!("{}", style::stderr().dim(note)));
    }
    let gate = open(logic, &servers)?;
    let mut decided = plan(logic, gate, call.clone(), &CallSurroundings::none())?;
    if let Some(file) = &args.schema {
        let schema = input::read_text(file, "the schema")?;
        if !matches!(serde_json::from_str(&schema), Ok(serde_json::Value::Object(_))) {
            return Err(in_file(file, "a JSON Schema must be a JSON object"));
        }
        let tool = match &decided {
            Ok(plan) => Some(plan.tool.clone()),
            Err(result) => result.tool.clone(),
        };
        if let Some(tool) = tool {
            servers.set_schema(&tool.server, &tool.tool, schema).map_err(|error| in_file(file, &error))?;
            let gate = open(logic, &servers)?;
            decided = plan(logic, gate, call.clone(), &CallSurroundings::none())?;
        }
    }
    print_decision(args, &call.name, decided, |audience| {
        let fitted = logic.fit(&candidates(&servers), &audience)?;
        fitted.map_err(|error| CliError::Usage(error.error_text()))
    })
}

/// Decides a call to the configured servers and prints the decision; it starts only the servers that the name needs, or
/// all for `--target`.
pub(super) async fn run_configured(context: &CliContext, args: &Args, arguments: String) -> Result<ExitCode, CliError> {
    let name = args.name.as_deref().unwrap_or_default();
    if args.target.is_some() {
        // Only the warnings about servers that cannot be used matter here.
        ServerResults::new(context, context.connect_all().await);
    }
    let decided = context.gate.plan(new_call(name, arguments)).await?;
    let refused = decided.as_ref().err().map(|result| (result.code, result.text.clone()));
    let code = print_decision(args, name, decided, |audience| {
        let tools = context.gate.tools(&naming::NamingStyle::Fitted(audience))?;
        let fitted = tools.into_iter().map(|tool| naming::FittedTool {
            name: tool.name,
            tool: tool.tool,
            schema: tool.input_schema.unwrap_or_else(|| "{}".to_owned()),
        });
        Ok(fitted.collect())
    })?;
    if let Some((code, error)) = refused.filter(|_| !args.json) {
        context.note_suggestion(code, name, &error);
    }
    Ok(code)
}

pub(super) fn new_call(name: &str, arguments: String) -> execution::ToolCall {
    execution::ToolCall { id: String::new(), name: name.to_owned(), arguments }
}

/// Prints a decision, for `toolgate rules explain`.
pub(super) fn print_explanation(
    name: &str,
    decided: Result<CallPlan, execution::ToolResult>,
    json: bool,
) -> Result<ExitCode, CliError> {
    let args = Args { name: None, arguments: Vec::new(), servers: None, schema: None, target: None, json };
    print_decision(&args, name, decided, |_| Ok(Vec::new()))
}

/// Prints a decision; `fit` returns all tools as a provider would see them, since names must not collide.
fn print_decision(
    args: &Args,
    name: &str,
    decided: Result<CallPlan, execution::ToolResult>,
    fit: impl FnOnce(naming::Audience) -> Result<Vec<naming::FittedTool>, CliError>,
) -> Result<ExitCode, CliError> {
    let plan = match decided {
        Ok(plan) => plan,
        Err(result) => return print_refusal(args, &result),
    };
    let fitted = match &args.target {
        None => None,
        Some(target) => {
            let audience =
                naming::Audience { target: NamedCase::parse(target).map_err(CliError::Usage)?, prefix: String::new() };
            let found = fit(audience)?.into_iter().find(|fitted| fitted.tool == plan.tool);
            let found = found.ok_or_else(|| CliError::usage("the tool has no name for this provider"))?;
            Some((target.clone(), found))
        }
    };
    show(args, name, plan, fitted)?;
    Ok(ExitCode::SUCCESS)
}

fn read_servers(file: Option<&Path>) -> Result<EvalServers, CliError> {
    match file {
        None => Ok(serde_json::from_str(demo::SERVERS).expect("the demo catalog has the shape of eval")),
        Some(file) => serde_json::from_str(&input::read_text(file, "the servers")?)
            .map_err(|error| in_file(file, &error.to_string())),
    }
}

fn in_file(file: &Path, error: &str) -> CliError {
    CliError::Usage(format!("{}: {error}", file.display()))
}

fn open(logic: &mut Supervisor, servers: &EvalServers) -> Result<GateId, CliError> {
    let ids: Vec<String> = servers.0.iter().map(|(id, _)| id.clone()).collect();
    let mut settings = logic.default_settings(&ids)?;
    settings.policy.servers = servers.0.iter().map(|(id, server)| server.rules(id)).collect();
    let gate = logic.open_gate(&settings)?.map_err(|error| CliError::Usage(error.error_text()))?;
    for (id, server) in &servers.0 {
        logic.offer(gate, id, &server.tools())?;
    }
    Ok(gate)
}

fn candidates(servers: &EvalServers) -> Vec<naming::Candidate> {
    let all = servers.0.iter().flat_map(|(id, server)| server.tools().into_iter().map(move |tool| (id, tool)));
    let candidate = |(server, tool): (&String, Tool)| naming::Candidate {
        tool: ToolRef { server: server.clone(), tool: tool.name },
        schema: tool.input_schema,
    };
    all.map(candidate).collect()
}

#[derive(Serialize)]
struct RouteOutput {
    name: String,
    server: String,
    tool: String,
    arguments: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fitted: Option<FittedOutput>,
    trace: Vec<String>,
}

#[derive(Serialize)]
struct FittedOutput {
    target: String,
    name: String,
    schema: Box<RawValue>,
}

fn show(args: &Args, name: &str, plan: CallPlan, fitted: Option<(String, naming::FittedTool)>) -> Result<(), CliError> {
    let raw = |json: String| {
        RawValue::from_string(json)
            .map_err(|error| CliError::Usage(format!("the component returned invalid JSON: {error}")))
    };
    if args.json {
        let fitted = match fitted {
            Some((target, fitted)) => Some(FittedOutput { target, name: fitted.name, schema: raw(fitted.schema)? }),
            None => None,
        };
        let ToolRef { server, tool } = plan.tool;
        let (name, approval, trace) = (name.to_owned(), plan.approval, plan.trace);
        return print(&RouteOutput { name, server, tool, arguments: raw(plan.arguments)?, approval, fitted, trace });
    }
    let style = style::stdout();
    let mut text = format!(
        "{}  {}\n",
        style.bold(&style::clean(name)),
        style.green(&format!("→ tool {:?} of server {:?}", plan.tool.tool, plan.tool.server))
    );
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {} {}", style.dim(&format!("{label:<10}")), style::clean(value));
    };
    row("arguments", &plan.arguments);
    if let Some(reason) = &plan.approval {
        row("approval", reason);
    }
    if let Some((target, fitted)) = &fitted {
        row(target, &fitted.name);
        row("", &fitted.schema);
    }
    for (n, note) in plan.trace.iter().enumerate() {
        row(if n == 0 { "why" } else { "" }, note);
    }
    print_plain(text.as_bytes())
}

#[derive(Serialize)]
struct RefusalOutput<'a> {
    error: &'a str,
    code: &'static str,
    trace: &'a [String],
}

fn print_refusal(args: &Args, result: &execution::ToolResult) -> Result<ExitCode, CliError> {
    if args.json {
        print(&RefusalOutput { error: &result.text, code: result.code.name(), trace: &result.trace })?;
    } else {
        style::write_error(result.code.name(), &style::clean(&result.text));
        for note in &result.trace {
            style::write_stderr(format_args!("  {}", style::stderr().dim(&style::clean(note))));
        }
    }
    Ok(ExitCode::from(exit_code(result.code)))
}

fn print<T: Serialize>(value: &T) -> Result<(), CliError> {
    print_plain(format!("{}\n", to_raw(value)).as_bytes())
}
