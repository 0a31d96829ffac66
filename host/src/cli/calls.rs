//! `toolgate calls`: lists what agents called, from a running gateway or from records, and goes on with new calls.

pub(super) mod from_gateway;
pub(super) mod recorded;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::config::secrets::Secrets;
use crate::gateway::CallFilter;
use crate::logic::types::execution::Code;
use crate::record::folder;
use crate::words::NamedCase;
use serde_json::Value;

use super::configured_records::{ConfiguredRecords, check_folders};
use super::error::CliError;
use super::printer::Printer;
use super::remote::{GatewayArgs, RemoteGateway, RunningGateways};
use super::{context, style};
use view::{CallRow, CallTable};

/// The arguments of `toolgate calls`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Go on with new calls as they end, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Only calls since then: an age such as 1h or 7d, or a date or time (UTC) such as 2026-11-15T17:30:00Z
    #[arg(long, value_name = "TIME", value_parser = context::since)]
    since: Option<SystemTime>,
    /// Only calls of tools of this server
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Only calls of this principal
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only calls that ended with this code, such as ok, tool-error, not-allowed or timeout
    #[arg(long, value_name = "CODE", value_parser = Code::parse)]
    code: Option<Code>,
    /// Only calls of this tool: any form of its name, in which * stands for any text
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// List at most this many calls, the newest ones
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Read the records in this folder, and ask no gateway; repeat it for several folders
    #[arg(long, value_name = "DIR", conflicts_with = "gateway")]
    record: Vec<PathBuf>,
    /// How long to wait for an answer of a gateway, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = context::time)]
    timeout: Option<Duration>,
    /// Print each call as one line of JSON
    #[arg(long)]
    json: bool,
    // Last, because its help heading applies to all options that follow.
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// Where the calls come from.
enum CallSource {
    Gateway(Box<RemoteGateway>),
    /// The folders of records.
    Records(Vec<PathBuf>),
}

/// Lists calls, and goes on with new ones if that is asked for.
pub(super) async fn run(
    config: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let filter = CallFilter {
        since: args.since,
        until: None,
        server: args.server.clone(),
        tool: args.tool.clone(),
        principal: args.principal.clone(),
        code: args.code,
    };
    let source = choose_source(config, args, secrets).await?;
    let mut list = CallList {
        printer: Printer(Arc::clone(secrets)),
        is_json: args.json,
        table: CallTable::new(args.follow),
        is_empty: true,
    };
    match source {
        CallSource::Gateway(remote) => from_gateway::run(&remote, &filter, args, &mut list).await?,
        CallSource::Records(dirs) => recorded::run(&dirs, &filter, args, &mut list).await?,
    }
    if list.is_empty && !args.follow {
        style::write_note(if filter == CallFilter::default() { "no calls yet" } else { "no such calls" });
    }
    Ok(ExitCode::SUCCESS)
}

/// Chooses the source that the options name; without any, the only running gateway of the configuration, or its
/// records.
async fn choose_source(
    config: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<CallSource, CliError> {
    let limit = args.timeout.unwrap_or(LIMIT);
    if !args.record.is_empty() {
        let dirs = folder::distinct(&args.record);
        // Who follows may be earlier than the first call.
        check_folders(&dirs, !args.follow)?;
        return Ok(CallSource::Records(dirs));
    }
    if args.gateway.gateway.is_some() {
        return Ok(CallSource::Gateway(Box::new(RemoteGateway::find(&args.gateway, limit, secrets).await?)));
    }
    let records = ConfiguredRecords::find(config);
    let file = records.as_ref().ok().map(|records| records.file.as_path());
    let running = RemoteGateway::find_only(file, limit, secrets).await?;
    let (several, records) = match (running, records) {
        (RunningGateways::One(remote, pid), _) => {
            style::write_note(&format!("calls of the running gateway, process {pid}"));
            return Ok(CallSource::Gateway(remote));
        }
        (running, Ok(records)) if records.has_records() || args.follow && records.is_on => {
            (matches!(running, RunningGateways::Several), records)
        }
        // The error lists them.
        (RunningGateways::Several, _) => {
            return Ok(CallSource::Gateway(Box::new(RemoteGateway::find(&args.gateway, limit, secrets).await?)));
        }
        (RunningGateways::None, records) => {
            let nothing = records?.nothing();
            return Err(CliError::Usage(format!("no gateway runs with this configuration, and {nothing}")));
        }
    };
    let hint = if several { "; several gateways run, and --gateway=PID asks one" } else { "" };
    style::write_note(&format!("calls that are recorded in {}{hint}", records.dir.display()));
    Ok(CallSource::Records(vec![records.dir]))
}

/// Prints calls as a table or as lines of JSON.
struct CallList {
    printer: Printer,
    is_json: bool,
    table: CallTable,
    is_empty: bool,
}

impl CallList {
    /// Prints calls as the API describes them, oldest first.
    fn print(&mut self, calls: &[Value]) -> Result<(), CliError> {
        self.is_empty &= calls.is_empty();
        if self.is_json {
            return calls.iter().try_for_each(|call| self.printer.print_json(call));
        }
        // Redacted first: a table cuts texts, and half of a secret is not recognized.
        let rows: Vec<_> = calls.iter().map(|call| CallRow::new(call, |text| self.printer.redact(text))).collect();
        self.printer.print_colored(&self.table.draw(&rows))
    }
}

/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
