//! `toolgate logs`: shows what the servers of a running gateway wrote to their standard error, and what became of them.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::config::secrets::Secrets;
use crate::failure::Failure;
use crate::registry::LogSource;
use crate::web::body;

use super::error::CliError;
use super::remote::{GatewayArgs, RemoteGateway};
use super::status::report::StatusReport;
use super::table::count_of;
use super::{context, printer, style};

/// The arguments of `toolgate logs`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Only this server; default: all
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// Go on with new lines, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// How long to wait for an answer, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = context::time)]
    timeout: Option<Duration>,
    /// Print each line as one line of JSON
    #[arg(long)]
    json: bool,
    // Last, because its help heading applies to all options that follow.
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// What the gateway says about a server.
#[derive(Deserialize)]
struct LogPage {
    lines: Vec<LogLine>,
    /// The number after which the next page begins.
    last: u64,
    /// How many lines are no longer kept.
    lost: u64,
}

/// A line about a server.
#[derive(Deserialize, Serialize)]
struct LogLine {
    #[serde(default)]
    server: String,
    number: u64,
    at: String,
    source: String,
    text: String,
}

/// Prints the lines that the gateway keeps, and goes on with new ones if that is asked for.
pub(super) async fn run(args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let remote = RemoteGateway::find(&args.gateway, args.timeout.unwrap_or(LIMIT), secrets).await?;
    let mut reader = LogReader { remote: &remote, args, read: HashMap::new() };
    if !args.follow {
        reader.print_new().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let listened = remote.operator.listen("api/v1/events").await;
    let mut changes = listened.map_err(|failed| remote.failure(&failed))?;
    while printer::stdout_is_open() {
        reader.print_new().await?;
        // What has changed does not matter, since a question about new lines costs little.
        if !matches!(body::next(&mut changes).await, Ok(Some(_))) {
            return Err(CliError::Unavailable("the gateway has stopped".to_owned()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the logs of servers, each line once.
struct LogReader<'a> {
    remote: &'a RemoteGateway,
    args: &'a Args,
    /// The number of the last line that was read of each server.
    read: HashMap<String, u64>,
}

impl LogReader<'_> {
    /// Prints the lines of all wanted servers that came since the last time, by their times.
    async fn print_new(&mut self) -> Result<(), CliError> {
        let servers = self.servers().await?;
        let longest = servers.iter().map(String::len).max().unwrap_or_default();
        let mut lines = Vec::new();
        for server in servers {
            let known = self.read.get(&server).copied();
            let Some(page) = self.page(&server, known.unwrap_or_default()).await? else { continue };
            if page.lost > 0 {
                self.report_loss(&server, page.lost, known.is_none())?;
            }
            self.read.insert(server.clone(), page.last);
            lines.extend(page.lines.into_iter().map(|line| LogLine { server: server.clone(), ..line }));
        }
        // The lines of a server stay in their order even if the clock was set back.
        lines.sort_by(|one, other| one.at.cmp(&other.at));
        for line in lines {
            if self.args.json {
                self.remote.printer.print_json(&line)?;
            } else {
                self.remote.printer.print_colored(&self.format(&line, longest))?;
            }
        }
        Ok(())
    }

    /// Returns the servers whose lines are wanted.
    async fn servers(&self) -> Result<Vec<String>, CliError> {
        let page = self.remote.get("api/v1/servers").await?;
        let report: StatusReport =
            serde_json::from_str(&page).map_err(|error| self.remote.unexpected_answer(&error))?;
        let known: Vec<String> = report.servers.into_iter().map(|server| server.server).collect();
        match &self.args.server {
            None => Ok(known),
            Some(wanted) if known.contains(wanted) => Ok(vec![wanted.clone()]),
            // It was there before a change of the configuration.
            Some(wanted) if self.read.contains_key(wanted) => Ok(Vec::new()),
            Some(wanted) => {
                let known = known.join(", ");
                Err(CliError::NotFound(format!("the gateway has no server {wanted:?}; there are: {known}")))
            }
        }
    }

    /// Returns the lines of a server after one of them; none if there is no such server any more.
    async fn page(&self, server: &str, after: u64) -> Result<Option<LogPage>, CliError> {
        match self.remote.operator.get(&format!("api/v1/servers/{server}/log?after={after}")).await {
            Ok(page) => {
                let page = serde_json::from_str(&page);
                page.map(Some).map_err(|error| self.remote.unexpected_answer(&error))
            }
            Err(failed) if matches!(&failed.failure, Failure::Http(error) if error.status == 404) => Ok(None),
            Err(failed) => Err(self.remote.failure(&failed)),
        }
    }

    fn report_loss(&self, server: &str, lost: u64, is_first: bool) -> Result<(), CliError> {
        if self.args.json {
            return self.remote.printer.print_json(&json!({"server": server, "lost": lost}));
        }
        match is_first {
            true => style::write_note(&format!("{server}: {} before these are no longer kept", count_of(lost, "line"))),
            false => {
                let lines = count_of(lost, "line");
                self.remote
                    .printer
                    .warn(&format!("{server}: {lines} came faster than they could be read, and are lost"));
            }
        }
        Ok(())
    }

    /// Formats a line for people. The mark says who wrote it, so that a server cannot speak for toolgate.
    fn format(&self, line: &LogLine, longest: usize) -> String {
        let LogLine { server, at, source, text, .. } = line;
        // `2026-11-15T17:29:48.396Z`
        let at = at.get(11..23).unwrap_or(at);
        let text = self.remote.printer.clean(text).replace('\n', " ");
        let style = style::stdout();
        match source == LogSource::Toolgate.name() {
            true => format!("{at} {server:<longest$} * {}\n", style.bold(&text)),
            false => format!("{at} {server:<longest$} | {text}\n"),
        }
    }
}

/// How long a gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
