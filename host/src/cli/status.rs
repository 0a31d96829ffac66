//! `toolgate status`: how a running gateway and its servers are.

pub mod report;
mod watch;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use toolgate::config::secrets::Secrets;
use toolgate::json::Object;

use super::failure::Failure;
use super::remote::{GatewayArgs, Remote};
use super::{desk, style, table};
use report::{About, Report, Server, age, milliseconds};

/// Which gateway, and for how long.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Go on and show what changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// How long to wait for an answer, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = desk::time)]
    timeout: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows how the gateway is.
pub async fn run(args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, Failure> {
    let remote = Remote::find(&args.gateway, args.timeout.unwrap_or(LIMIT), secrets).await?;
    if args.watch {
        return watch::run(&remote, args.json).await;
    }
    let page = remote.get(PAGE).await?;
    if args.json {
        print_json(&remote, &page)?;
    } else {
        remote.printer.print_drawn(&draw(&read(&remote, &page)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(remote: &Remote, page: &str) -> Result<Report, Failure> {
    serde_json::from_str(page).map_err(|error| remote.strange(&error))
}

/// What the gateway said, all of it.
fn print_json(remote: &Remote, page: &str) -> Result<(), Failure> {
    let page = serde_json::from_str::<Object>(page).map_err(|error| remote.strange(&error))?;
    remote.printer.print_json(&page)
}

/// All that is known, for people.
fn draw(report: &Report) -> String {
    let rows = report.servers.iter().map(row);
    let head = [
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
    let table = table::draw_figures(head, rows);
    let table = if table.is_empty() { "it has no servers\n".to_owned() } else { table };
    format!("{}\n\n{table}", headline(report))
}

/// The gateway itself, on one line.
fn headline(report: &Report) -> String {
    let style = style::stdout();
    let ready = if report.ready { style.green("ready") } else { style.red("not ready") };
    let Some(about) = &report.gateway else { return ready };
    let About { pid, version, for_s, .. } = about;
    let refused: u64 = about.doors.iter().map(|door| door.refused).sum();
    let mut parts =
        vec![format!("gateway {pid} is {ready}"), format!("toolgate {version}"), format!("for {}", age(*for_s))];
    parts.extend(about.address().map(str::to_owned));
    parts.extend((refused > 0).then(|| format!("{refused} requests refused")));
    parts.extend(about.file.clone());
    // The colours are ours, all else was said to us.
    let parts: Vec<_> = parts
        .iter()
        .enumerate()
        .map(|(place, part)| if place == 0 { part.clone() } else { style::clean(part) })
        .collect();
    parts.join(" · ")
}

fn row(server: &Server) -> [String; 15] {
    let calls = &server.calls;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let sum = |part: fn(&report::Queue) -> u64| server.queues.iter().map(part).sum::<u64>();
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
        or_dash(server.trouble()),
    ]
}

const PAGE: &str = "api/v1/servers";
/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
