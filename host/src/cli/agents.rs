//! `toolgate context`: shows what the agents of a running gateway have seen, makes it forget, and accepts a store that has
//! lost it.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::secrets::Secrets;

use super::error::CliError;
use super::remote::{GatewayArgs, RemoteGateway};
use super::{context, style, table};

/// The arguments of `toolgate context`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// What to do; without it, the command shows what agents have seen
    #[arg(value_enum)]
    action: Option<ContextAction>,
    /// Only the agents of this principal; default: all. Not for `adopt`
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// How long to wait for an answer, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = context::time)]
    timeout: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    // Last, because its help heading applies to all options that follow.
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// What to do with what agents have seen.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ContextAction {
    /// Forget it, so that rules treat the agents as new
    Reset,
    /// Accept the store of the replicas as it is, after it was emptied or replaced
    Adopt,
}

/// What the gateway says about its agents.
#[derive(Deserialize, Serialize)]
struct AgentsPage {
    agents: Vec<AgentRow>,
}

/// An agent that has seen something.
#[derive(Deserialize, Serialize)]
struct AgentRow {
    principal: String,
    part: Option<String>,
    labels: Vec<String>,
    known: usize,
}

/// What the gateway says about a reset.
#[derive(Deserialize, Serialize)]
struct ResetAnswer {
    forgotten: usize,
    /// Why other replicas were not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    others_not_told: Option<String>,
}

/// What the gateway says about a store that was accepted.
#[derive(Deserialize, Serialize)]
struct AdoptAnswer {
    /// Whether it had lost something.
    adopted: bool,
    /// Why other replicas were not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    others_not_told: Option<String>,
}

/// Shows what agents have seen, or makes the gateway forget it.
pub(super) async fn run(args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let remote = RemoteGateway::find(&args.gateway, args.timeout.unwrap_or(LIMIT), secrets).await?;
    match args.action {
        None => {
            let page = remote.get(PAGE).await?;
            let AgentsPage { mut agents } =
                serde_json::from_str(&page).map_err(|error| remote.unexpected_answer(&error))?;
            agents.retain(|agent| args.principal.as_ref().is_none_or(|only| agent.principal == *only));
            if args.json {
                remote.printer.print_json(&AgentsPage { agents })?;
                return Ok(ExitCode::SUCCESS);
            }
            if agents.is_empty() {
                style::write_note("no agent has seen anything that rules remember");
                return Ok(ExitCode::SUCCESS);
            }
            let row = |AgentRow { principal, part, labels, known }: &AgentRow| {
                let part = part.as_deref().unwrap_or_default();
                [principal.clone(), part.to_owned(), labels.join(", "), known.to_string()]
            };
            let rows = agents.iter().map(row);
            remote.printer.print_colored(&table::draw_figures(&["PRINCIPAL", "PART", "LABELS", "KNOWS"], rows))?;
        }
        Some(ContextAction::Reset) => {
            let body = serde_json::json!({"principal": args.principal}).to_string();
            let answer = remote.post(&format!("{PAGE}/reset"), body).await?;
            let reset: ResetAnswer = serde_json::from_str(&answer).map_err(|error| remote.unexpected_answer(&error))?;
            if args.json {
                remote.printer.print_json(&reset)?;
                return Ok(ExitCode::SUCCESS);
            }
            style::write_note(&format!("{} forgotten", table::count_of(reset.forgotten as u64, "agent")));
            note_not_told(reset.others_not_told.as_deref());
        }
        Some(ContextAction::Adopt) => {
            if args.principal.is_some() {
                return Err(CliError::Usage(
                    "adopt accepts the store for all principals: leave out --principal".to_owned(),
                ));
            }
            let answer = remote.post(&format!("{PAGE}/adopt"), "{}".to_owned()).await?;
            let adopted: AdoptAnswer =
                serde_json::from_str(&answer).map_err(|error| remote.unexpected_answer(&error))?;
            if args.json {
                remote.printer.print_json(&adopted)?;
                return Ok(ExitCode::SUCCESS);
            }
            if adopted.adopted {
                style::write_note("the store is accepted as it is");
            } else {
                style::write_note("this replica accepts the store already");
            }
            note_not_told(adopted.others_not_told.as_deref());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that the other replicas do not know what the operator wants, and why.
fn note_not_told(why: Option<&str>) {
    if let Some(why) = why {
        style::write_note(&format!("the other replicas do not know it, so tell each of them: {}", style::clean(why)));
    }
}

const PAGE: &str = "api/v1/context";
/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
