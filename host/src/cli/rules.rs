//! `toolgate rules`: tests rules with cases from files, and explains what they say about a call.

mod cases;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::access::principals;
use crate::calendar;
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::decide::Decide;
use crate::gate::{Gate, GateView};
use crate::logic::types::rules::{AgentContext, CallCount, Circumstances};
use crate::record::CallSurroundings;

use super::context::{CliContext, ConfigFallback, load_config_to_read};
use super::error::CliError;
use super::logic_args::LogicArgs;
use super::{call, route};

/// The arguments of `toolgate rules`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  toolgate rules test rules.test.yaml                      cases, for CI
  toolgate rules explain fs.write 'path: /etc/passwd'      which rules fit, and why
  toolgate rules explain mail.send 'to: a@b.example' --label untrusted

A file of cases is YAML:
  config: toolgate.yaml
  cases:
    - call: fs.write
      arguments: {path: /etc/passwd}
      context: {labels: [untrusted], known: [ann@example.com], now: 2026-07-28T02:00:00Z}
      principal: ann
      expect: deny
      rule: stay-in-the-workspace
`expect` is allow, ask or deny. No server is started: tools that `servers` does not describe have no schema.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(clap::Subcommand)]
enum RulesCommand {
    /// Test the rules with the cases in these files, and exit with 1 if one fails
    Test(TestArgs),
    /// Show which rules fit a call, and why
    Explain(ExplainArgs),
}

#[derive(clap::Args)]
struct TestArgs {
    /// Files of cases
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The arguments of `toolgate rules explain`.
#[derive(clap::Args)]
pub(super) struct ExplainArgs {
    /// The name as a model wrote it
    name: String,
    /// The arguments as for `call`
    #[arg(allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Who calls; default: you
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// A label of what the agent has seen; can be repeated
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// A value that the agent knows; can be repeated
    #[arg(long, value_name = "VALUE")]
    known: Vec<String>,
    /// The time of the call, such as 2026-07-28T02:00:00Z; default: now
    #[arg(long, value_name = "TIME")]
    now: Option<String>,
    /// The name of the client program
    #[arg(long, value_name = "NAME", default_value = "")]
    client: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Returns the arguments of `explain`, which needs the configured servers.
    pub(super) fn explain(&self) -> Option<&ExplainArgs> {
        match &self.command {
            RulesCommand::Explain(args) => Some(args),
            RulesCommand::Test(_) => None,
        }
    }

    /// Runs `test`, which needs no servers.
    pub(super) fn test(
        &self,
        logic: &LogicArgs,
        config: Option<&Path>,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<ExitCode, CliError> {
        let RulesCommand::Test(args) = &self.command else { return Ok(ExitCode::SUCCESS) };
        let load = |file: Option<&Path>| {
            let variables = Variables::from_process();
            load_config_to_read(file.or(config), &variables, ConfigFallback::Fail).map(|(config, _)| config)
        };
        cases::run(&mut logic.supervisor()?, &args.files, args.json, load, secrets)
    }
}

impl ExplainArgs {
    /// Returns the text of the arguments, read as `call` reads it.
    pub(super) fn arguments(&self) -> Result<String, CliError> {
        call::read_arguments(&self.arguments)
    }
}

/// Explains what rules say about a call of the configured servers.
pub(super) async fn explain(context: &CliContext, args: &ExplainArgs, arguments: String) -> Result<ExitCode, CliError> {
    let registry = context.gate.registry();
    let view = view_of(&registry.config(), args.principal.as_deref())?;
    let gate = Gate::open(registry, view.clone())?;
    let mut logic = crate::logic::Supervisor::new(registry.component().clone())?;
    let circumstances = Circumstances {
        caller: view.agent.caller(&args.client),
        now_ms: Some(time_of(args.now.as_deref())?),
        context: AgentContext { labels: args.label.clone(), known: logic.known_values(&args.known)? },
    };
    let count = |rules: &[String]| rules.iter().map(|_| CallCount { calls: 1, ends_in_ms: 0 }).collect();
    let around = CallSurroundings { circumstances, count: Some(&count) };
    let decided = gate.plan_by(route::new_call(&args.name, arguments), |directive| around.answer(directive)).await?;
    route::print_explanation(&args.name, decided, args.json)
}

/// Returns the view of a principal of the configuration.
pub(super) fn view_of(config: &crate::config::model::Config, principal: Option<&str>) -> Result<GateView, CliError> {
    let Some(principal) = principal else { return Ok(GateView::default()) };
    let all = principals(config);
    match all.iter().find(|(name, _)| name == principal) {
        Some((_, view)) => Ok(view.clone()),
        None => {
            let known: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
            Err(CliError::NotFound(format!("there is no principal {principal:?}; there are: {}", known.join(", "))))
        }
    }
}

/// Returns a time in milliseconds since 1970; now, if none is given.
fn time_of(text: Option<&str>) -> Result<u64, CliError> {
    let at = match text {
        Some(text) => calendar::parse(text)
            .ok_or_else(|| CliError::Usage(format!("{text:?} is not a time, such as 2026-07-28T02:00:00Z")))?,
        None => SystemTime::now(),
    };
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
