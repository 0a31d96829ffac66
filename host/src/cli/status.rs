//! `toolgate status`: shows the state of a running gateway and its servers.

pub(super) mod report;
mod view;
mod watch;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::secrets::Secrets;

use super::context;
use super::error::CliError;
use super::remote::{GatewayArgs, RemoteGateway};
use report::ServerReport;

/// The arguments of `toolgate status`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Keep running and show what changes, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
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
pub(super) async fn run(args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let remote = RemoteGateway::find(&args.gateway, args.timeout.unwrap_or(LIMIT), secrets).await?;
    if args.watch {
        return watch::run(&remote, args.json).await;
    }
    let page = remote.get(view::PAGE).await?;
    if args.json {
        view::print_json(&remote, &page)?;
    } else {
        remote.printer.print_colored(&view::draw(&view::read(&remote, &page)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which server a call through a gateway waits for, and what is wrong with it.
pub(super) async fn describe_wait(remote: &RemoteGateway, name: &str) -> String {
    let page = remote.get(view::PAGE).await.ok();
    let report = page.and_then(|page| view::read(remote, &page).ok());
    let plain = name.strip_prefix("mcp__").unwrap_or(name);
    let is_meant =
        |server: &&ServerReport| plain.strip_prefix(&*server.server).is_some_and(|rest| rest.starts_with(['.', '_']));
    let servers = report.map(|report| report.servers).unwrap_or_default();
    let Some(server) = servers.iter().filter(is_meant).max_by_key(|server| server.server.len()) else {
        return "waiting for the gateway".to_owned();
    };
    let (id, state) = (&server.server, &server.state);
    match server.last_problem() {
        Some(problem) if state != "ready" => format!(
            "waiting for server {id:?}, which is {state}: {problem}; the gateway tries again until \
             lifecycle.acquire_timeout has passed"
        ),
        _ => format!("waiting for server {id:?}, which is {state}"),
    }
}

/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
