//! Runs the cases of `toolgate rules test`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::{time_of, view_of};
use crate::config::model::Config;
use crate::config::nearest;
use crate::config::rule_cases::{RuleCase, RuleCases, read_cases_file};
use crate::config::secrets::Secrets;
use crate::decide::{Decide, GateId};
use crate::eval::EvalServers;
use crate::gate::{find_problems, settings};
use crate::gate_settings::settings_error;
use crate::logic::Supervisor;
use crate::logic::types::execution::{Code, ToolCall};
use crate::logic::types::rules::{AgentContext, CallCount, Circumstances};
use crate::logic::types::{Annotations, Tool};
use crate::plan::plan;
use crate::record::CallSurroundings;
use crate::words::NamedCase;

use super::super::error::{CliError, REFUSED};
use super::super::printer::Printer;
use super::super::{style, table};

/// The outcome of a case.
#[derive(Serialize)]
struct CaseOutcome {
    file: String,
    line: u32,
    name: String,
    expected: String,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    ok: bool,
    trace: Vec<String>,
}

/// What rules say about a call.
struct Verdict {
    verdict: String,
    rule: Option<String>,
    trace: Vec<String>,
}

/// Runs the cases of all files, and reports those that fail.
pub(super) fn run(
    logic: &mut Supervisor,
    files: &[PathBuf],
    json: bool,
    load: impl Fn(Option<&Path>) -> Result<Config, CliError>,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let mut outcomes = Vec::new();
    for file in files {
        let cases = read_cases_file(file).map_err(CliError::usage)?;
        cases.cases.iter().try_for_each(check_expected)?;
        let mut config = load(cases.config.as_deref())?;
        find_problems(logic, &mut config)?;
        if let Some(problem) = config.servers.iter().find_map(|server| server.problem.as_ref()) {
            return Err(CliError::Usage(problem.to_string()));
        }
        let servers = described(file, &cases)?;
        for case in &cases.cases {
            outcomes.push(run_case(logic, file, &config, &servers, &cases, case)?);
        }
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.ok).count();
    let printer = Printer(Arc::clone(secrets));
    match json {
        true => printer.print_json(&outcomes)?,
        false => {
            printer.print_colored(&outcomes.iter().filter(|outcome| !outcome.ok).map(describe).collect::<String>())?;
            let passed = table::count_of((outcomes.len() - failed) as u64, "case");
            style::write_note(&format!("{passed} passed, {failed} failed"));
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// Returns an error unless a case expects something that rules can say.
fn check_expected(case: &RuleCase) -> Result<(), CliError> {
    let expected = case.expect.as_str();
    let is_end = Code::parse(expected).is_ok_and(|code| !matches!(code, Code::Ok | Code::NotAllowed));
    if VERDICTS.contains(&expected) || is_end {
        return Ok(());
    }
    let hint = match expected {
        "ok" | "allowed" => "; did you mean \"allow\"?".to_owned(),
        "not-allowed" | "denied" => "; did you mean \"deny\"?".to_owned(),
        _ => nearest::hint(expected, VERDICTS),
    };
    let place = case.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    Err(CliError::Usage(format!(
        "{place}`expect` cannot be {expected:?}; write {}, or the code of another end such as invalid-arguments{hint}",
        VERDICTS.join(", ")
    )))
}

/// Returns the servers that a file describes.
fn described(file: &Path, cases: &RuleCases) -> Result<EvalServers, CliError> {
    let Some(servers) = &cases.servers else { return Ok(EvalServers::default()) };
    serde_json::from_str(&servers.to_string())
        .map_err(|error| CliError::Usage(format!("{}: servers: {error}", file.display())))
}

fn run_case(
    logic: &mut Supervisor,
    file: &Path,
    config: &Config,
    servers: &EvalServers,
    cases: &RuleCases,
    case: &RuleCase,
) -> Result<CaseOutcome, CliError> {
    let view = view_of(config, case.principal.as_deref())?;
    let settings = settings(logic, config, &view)?;
    let gate = logic.open_gate(&settings)?.map_err(|error| CliError::Usage(settings_error(config, &error)))?;
    offer_tools(logic, gate, config, servers, cases)?;
    let circumstances = Circumstances {
        caller: view.agent.caller(&case.client),
        now_ms: Some(time_of(case.context.now.as_deref())?),
        context: AgentContext { labels: case.context.labels.clone(), known: logic.known_values(&case.context.known)? },
    };
    let counts: HashMap<_, _> = case.counts.iter().cloned().collect();
    let count = |rules: &[String]| {
        rules.iter().map(|rule| CallCount { calls: counts.get(rule).copied().unwrap_or(1), ends_in_ms: 0 }).collect()
    };
    let around = CallSurroundings { circumstances, count: Some(&count) };
    let call = ToolCall { id: String::new(), name: case.call.clone(), arguments: case.arguments.clone() };
    let (verdict, reason, trace) = match plan(logic, gate, call, &around)? {
        Ok(planned) => match planned.approval {
            Some(reason) => ("ask".to_owned(), reason, planned.trace),
            None => ("allow".to_owned(), String::new(), planned.trace),
        },
        Err(result) if result.code == Code::NotAllowed => ("deny".to_owned(), result.text, result.trace),
        Err(result) => (result.code.name().to_owned(), result.text, result.trace),
    };
    logic.close_gate(gate)?;
    let names = settings.rules.lists.iter().flatten().map(|rule| &rule.name);
    let rule = names.filter(|name| reason.contains(&format!("rule {name:?}"))).max_by_key(|name| name.len()).cloned();
    let found = Verdict { verdict, rule, trace };
    let ok = found.verdict == case.expect && case.rule.as_ref().is_none_or(|rule| found.rule.as_ref() == Some(rule));
    let by = |verdict: &str, rule: &Option<String>| match rule {
        Some(rule) => format!("{verdict} by {rule}"),
        None => verdict.to_owned(),
    };
    Ok(CaseOutcome {
        file: file.display().to_string(),
        line: case.place.as_ref().map_or(0, |place| place.line),
        name: case.name.clone().unwrap_or_else(|| format!("{} {}", case.call, case.arguments)),
        expected: by(&case.expect, &case.rule),
        found: by(&found.verdict, &found.rule),
        rule: found.rule,
        ok,
        trace: found.trace,
    })
}

/// Offers the tools that the file describes, and those that its cases call of servers that it does not describe.
fn offer_tools(
    logic: &mut Supervisor,
    gate: GateId,
    config: &Config,
    servers: &EvalServers,
    cases: &RuleCases,
) -> Result<(), CliError> {
    let mut offers: BTreeMap<&str, Vec<Tool>> =
        servers.0.iter().map(|(id, server)| (id.as_str(), server.tools())).collect();
    for case in &cases.cases {
        let Ok(named) = logic.split(&case.call)? else { continue };
        let Some(server) = config.servers.iter().find(|server| server.id == named.server) else { continue };
        let tools = offers.entry(&server.id).or_default();
        if !tools.iter().any(|tool| tool.name == named.tool) {
            let annotations = Annotations::default();
            tools.push(Tool { name: named.tool, description: None, input_schema: None, annotations });
        }
    }
    // A server without tools has listed none, so that nothing waits for it.
    for server in &config.servers {
        let tools = offers.remove(server.id.as_str()).unwrap_or_default();
        logic.offer(gate, &server.id, &tools)?;
    }
    Ok(())
}

/// What rules say about a call that can be made.
const VERDICTS: [&str; 3] = ["allow", "ask", "deny"];

/// Describes a case that failed.
fn describe(outcome: &CaseOutcome) -> String {
    let style = style::stdout();
    let CaseOutcome { file, line, name, expected, found, trace, .. } = outcome;
    let mut text = format!("{} {file}:{line}: {}\n", style.red("✗"), style.bold(&style::clean(name)));
    text += &format!("    expected {}, found {}\n", style::clean(expected), style::clean(found));
    for note in trace {
        text += &format!("    {}\n", style.dim(&style::clean(note)));
    }
    text
}
