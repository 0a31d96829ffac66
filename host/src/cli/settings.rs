//! `toolgate settings`: prints what a configuration means to the component, for programs that embed it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::decide::Decide;
use crate::gate::{find_problems, settings};
use crate::gate_settings::settings_error;

use super::context::{self, ConfigFallback};
use super::error::CliError;
use super::logic_args::LogicArgs;
use super::printer::Printer;
use super::rules::view_of;

/// The arguments of `toolgate settings`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The settings for this principal; default: for you
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
}

/// Reads the configuration and prints its settings as JSON, if all of it can be used.
pub(super) fn run(
    logic: &LogicArgs,
    config: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let (mut config, _) = context::load_config_to_read(config, &Variables::from_process(), ConfigFallback::Fail)?;
    let mut logic = logic.supervisor()?;
    find_problems(&mut logic, &mut config)?;
    // A gateway goes on without such a server. A program that embeds the component would not notice that rules are missing.
    let problems: Vec<_> = config.servers.iter().filter_map(|server| server.problem.as_ref()).collect();
    if !problems.is_empty() {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        return Err(CliError::Usage(lines.join("\n")));
    }
    let settings = settings(&mut logic, &config, &view_of(&config, args.principal.as_deref())?)?;
    logic.open_gate(&settings)?.map_err(|error| CliError::Usage(settings_error(&config, &error)))?;
    Printer(Arc::clone(secrets)).print_json(&settings)?;
    Ok(ExitCode::SUCCESS)
}
