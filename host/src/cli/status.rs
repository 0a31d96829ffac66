//! `toolgate status`: shows the state of a running gateway and its servers.

pub mod report;
mod watch;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::secrets::Secrets;
use crate::json::JsonObject;

use super::error::CliError;
use super::remote::{GatewayArgs, RemoteGateway};
use super::{context, style, table};
use report::{GatewayInfo, ServerReport, StatusReport, age, milliseconds};

/// The arguments of `toolgate status`.
#[derive(clap::Args)]
pub struct Args {
    /// Keep running and show what changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
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

/// Prints the state of the gateway.
pub async fn run(args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let remote = RemoteGateway::find(&args.gateway, args.timeout.unwrap_or(LIMIT), secrets).await?;
    if args.watch {
        return watch::run(&remote, args.json).await;
    }
    let page = remote.get(PAGE).await?;
    if args.json {
        print_json(&remote, &page)?;
    } else {
        remote.printer.print_colored(&draw(&read(&remote, &page)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(remote: &RemoteGateway, page: &str) -> Result<StatusReport, CliError> {
    serde_json::from_str(page).map_err(|error| remote.unexpected_answer(&error))
}

/// Prints the whole answer of the gateway as JSON.
fn print_json(remote: &RemoteGateway, page: &str) -> Result<(), CliError> {
    let page = serde_json::from_str::<JsonObject>(page).map_err(|error| remote.unexpected_answer(&error))?;
    remote.printer.print_json(&page)
}

/// Draws the report for people; a narrow terminal gets fewer columns.
fn draw(report: &StatusReport) -> String {
    let table = match table::width() {
        Some(..WIDE) => {
            let picked = |cells: [String; 15]| NARROW.map(|place| cells[place].clone());
            table::draw_figures(
                NARROW.map(|place| HEAD[place]),
                report.servers.iter().map(|server| picked(row(server))),
            )
        }
        _ => table::draw_figures(HEAD, report.servers.iter().map(row)),
    };
    let table = if table.is_empty() { "the gateway has no servers\n".to_owned() } else { table };
    format!("{}\n\n{table}", headline(report))
}

/// Describes the gateway on one line.
fn headline(report: &StatusReport) -> String {
    let style = style::stdout();
    let ready = if report.ready { style.green("ready") } else { style.red("not ready") };
    let Some(about) = &report.gateway else { return ready };
    let GatewayInfo { pid, version, for_s, .. } = about;
    let refused: u64 = about.listeners.iter().map(|info| info.refused).sum();
    let mut parts = vec![format!("toolgate {version}"), format!("for {}", age(*for_s))];
    parts.extend(about.address().map(str::to_owned));
    parts.extend((refused > 0).then(|| format!("{refused} requests refused")));
    parts.extend(about.file.clone());
    format!("gateway {pid} is {ready} · {}", style::clean(&parts.join(" · ")).replace('\n', " "))
}

fn row(server: &ServerReport) -> [String; 15] {
    let calls = &server.calls;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let sum = |part: fn(&report::QueueReport) -> u64| server.queues.iter().map(part).sum::<u64>();
    [
        server.server.clone(),
        server.state.clone(),
        age(server.for_s),
        or_dash(server.version.clone().or_else(|| server.era.clone())),
        or_dash(server.tools.map(|tools| tools.to_string())),
        calls.calls.to_string(),
        (calls.failures + calls.unknown).to_string(),
        or_dash(calls.p50_ms.map(milliseconds)),
        or_dash(calls.p90_ms.map(milliseconds)),
        or_dash(calls.p99_ms.map(milliseconds)),
        calls.in_flight.to_string(),
        sum(|queue| queue.waiting).to_string(),
        server.restarts.to_string(),
        or_dash(server.pid.map(|pid| pid.to_string())),
        or_dash(server.last_problem()),
    ]
}

const HEAD: [&str; 15] = [
    "SERVER",
    "STATE",
    "FOR",
    "MCP",
    "TOOLS",
    "CALLS",
    "FAILED",
    "P50",
    "P90",
    "P99",
    "RUNNING",
    "WAITING",
    "RESTARTS",
    "PID",
    "LAST ERROR",
];
/// The columns that fit on a narrow terminal.
const NARROW: [usize; 9] = [0, 1, 2, 4, 5, 6, 8, 11, 14];
/// The least width for all columns.
const WIDE: u16 = 140;
const PAGE: &str = "api/v1/servers";
/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
