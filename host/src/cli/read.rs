//! `toolgate read`: finds the calls that a model wrote in a text, without making them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::contract_json::ReadCallJson;
use crate::decide::Decide;
use crate::gate::Gate;
use crate::logic::Supervisor;
use crate::logic::types::reading::{KnownTool, ReadCall, Standing};
use crate::words::{ErrorText, NamedCase};

use super::context::CliContext;
use super::error::CliError;
use super::printer::Printer;
use super::requests::ServerResults;
use super::{input, style, table};

/// The arguments of `toolgate read`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The file with the text; standard input if it is missing or -
    file: Option<PathBuf>,
    /// Also find calls that the text only mentions or quotes
    #[arg(long)]
    loose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Returns the text to read.
    pub(super) fn text(&self) -> Result<String, CliError> {
        read_text(self.file.as_deref())
    }
}

/// Reads a text from a file, or from standard input if there is none or its name is `-`.
pub(super) fn read_text(file: Option<&Path>) -> Result<String, CliError> {
    input::read_text(file.unwrap_or(Path::new("-")), "the text")
}

/// Prints the calls in a text, which may be calls of any tool.
pub(super) fn run(printer: &Printer, args: &Args, text: &str, logic: &mut Supervisor) -> Result<ExitCode, CliError> {
    print(printer, args, text, find_calls(text, &[], args.loose, logic)?)
}

/// Prints the calls in a text, read with the schemas of the configured tools.
pub(super) async fn run_configured(
    context: &CliContext,
    args: &Args,
    text: &str,
    logic: &mut Supervisor,
) -> Result<ExitCode, CliError> {
    ServerResults::new(context, context.connect_all().await);
    let tools = CallableTools::of(&context.gate)?;
    print(context, args, text, find_calls(text, &tools.known, args.loose, logic)?)
}

fn print(printer: &Printer, args: &Args, text: &str, calls: Vec<ReadCall>) -> Result<ExitCode, CliError> {
    if args.json {
        printer.print_json(&calls.into_iter().map(ReadCallJson::from).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if calls.is_empty() {
        style::write_note("the text calls no tool");
    }
    let rows = calls.into_iter().map(|call| {
        let line = line_of(text, call.start);
        let (form, standing) = (call.form.name().to_owned(), call.standing.name().to_owned());
        [call.name, line.to_string(), form, standing, call.arguments]
    });
    printer.print_colored(&table::draw(&["TOOL", "LINE", "FORM", "STANDS", "ARGUMENTS"], rows))?;
    Ok(ExitCode::SUCCESS)
}

/// Finds the calls in a text that stand for themselves, or with `loose` all; notes how many the text only mentions.
pub(super) fn find_calls(
    text: &str,
    tools: &[KnownTool],
    loose: bool,
    logic: &mut Supervisor,
) -> Result<Vec<ReadCall>, CliError> {
    let calls = logic.read_calls(text, tools, loose)?.map_err(|error| CliError::Usage(error.error_text()))?;
    // What the text mentions need not be readable.
    if !loose && let Ok(all) = logic.read_calls(text, tools, true)? {
        let mentioned: Vec<_> = all.iter().filter(|call| is_mention(call.standing)).collect();
        if let Some(first) = mentioned.first() {
            let line = line_of(text, first.start);
            let others = mentioned.len() - 1;
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            style::write_note(&format!(
                "left out, because the text only mentions or quotes it: {:?} on line {line}{more}; a call stands on \
                 lines of its own, in a code fence or after a mark (or use --loose)",
                first.name
            ));
        }
    }
    Ok(calls)
}

/// Reports whether a call that stands so is only mentioned or quoted.
fn is_mention(standing: Standing) -> bool {
    matches!(standing, Standing::Inline | Standing::Quoted)
}

/// Returns the number of the line on which a byte of a text stands.
fn line_of(text: &str, at: u64) -> usize {
    let at = usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The tools that calls in a text may mean.
#[derive(Default)]
pub(super) struct CallableTools {
    /// By the names that are listed, and by their own names if only one has it.
    pub known: Vec<KnownTool>,
    /// The listed names of tools that are known by their own.
    listed: HashMap<String, String>,
}

impl CallableTools {
    /// Returns the tools of a gate.
    pub(super) fn of(gate: &Gate) -> Result<Self, CliError> {
        let tools = gate.tools(&gate.style())?.into_iter();
        Ok(Self::new(tools.map(|tool| (tool.name, tool.tool.tool, tool.input_schema)).collect()))
    }

    /// Returns these tools, each with its listed name, its own name, and its schema.
    pub(super) fn new(tools: Vec<(String, String, Option<String>)>) -> Self {
        let mut uses: HashMap<&str, u32> = HashMap::new();
        for (listed, own, _) in &tools {
            *uses.entry(own).or_default() += 1;
            if listed != own {
                *uses.entry(listed).or_default() += 1;
            }
        }
        let unique: Vec<_> = tools.iter().filter(|(listed, own, _)| listed != own && uses[own.as_str()] == 1).collect();
        let known =
            |name: &String, schema: &Option<String>| KnownTool { name: name.clone(), input_schema: schema.clone() };
        let by_list = tools.iter().map(|(listed, _, schema)| known(listed, schema));
        CallableTools {
            known: by_list.chain(unique.iter().map(|(_, own, schema)| known(own, schema))).collect(),
            listed: unique.iter().map(|(listed, own, _)| (own.clone(), listed.clone())).collect(),
        }
    }

    /// Returns the name by which a tool is called that a text names so.
    pub(super) fn name_of(&self, written: String) -> String {
        self.listed.get(&written).cloned().unwrap_or(written)
    }
}
