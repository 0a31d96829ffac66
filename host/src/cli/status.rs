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

/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
