//! `toolgate status --watch`: a live table on a terminal, and a line for each change elsewhere.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use crate::calendar::Utc;
use crate::web::body;

use super::report::{ServerReport, StatusReport};
use super::view::{PAGE, draw, print_json, read};
use crate::cli::error::CliError;
use crate::cli::remote::RemoteGateway;
use crate::cli::{printer, style};

/// Shows changes for as long as the gateway runs.
pub(super) async fn run(remote: &RemoteGateway, json: bool) -> Result<ExitCode, CliError> {
    let listened = remote.operator.listen("api/v1/events").await;
    let mut changes = listened.map_err(|failed| remote.failure(&failed))?;
    let on_terminal = std::io::stdout().is_terminal() && !json;
    let mut lines = LastStatus::default();
    if on_terminal {
        remote.printer.print_colored(CLEAR)?;
    }
    loop {
        let page = remote.get(PAGE).await?;
        let report = read(remote, &page)?;
        if on_terminal {
            remote.printer.print_colored(&screen(&draw(&report), rows()))?;
        } else {
            let news = lines.changed_lines(&report);
            // Programs get the whole report whenever a person would get a line.
            if json && !news.is_empty() {
                print_json(remote, &page)?;
            } else if !json {
                remote.printer.print_colored(&news)?;
            }
        }
        if !printer::stdout_is_open() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            // The content does not matter, since the whole report is asked for again; a keep-alive counts as well.
            more = body::next(&mut changes) => if !matches!(more, Ok(Some(_))) {
                return Err(CliError::Unavailable("the gateway has stopped".to_owned()));
            },
            // Ages grow even if nothing changes.
            () = tokio::time::sleep(TICK), if on_terminal => {}
        }
    }
}

/// The state that was printed last.
#[derive(Default)]
struct LastStatus {
    readiness: Option<&'static str>,
    servers: HashMap<String, ServerReport>,
}

impl LastStatus {
    /// Returns a line for each change.
    fn changed_lines(&mut self, report: &StatusReport) -> String {
        let now = Utc::from(SystemTime::now());
        let mut out = String::new();
        for server in &report.servers {
            let known = self.servers.get(&server.server);
            if known.is_none_or(|known| known.notable_state() != server.notable_state()) {
                out += &format!("{now} {}\n", line(server));
            }
        }
        let gone = |id: &&String| !report.servers.iter().any(|server| &server.server == *id);
        let mut gone: Vec<_> = self.servers.keys().filter(gone).collect();
        gone.sort();
        for id in gone {
            out += &format!("{now} {} removed\n", style::clean(id));
        }
        let readiness = report.readiness();
        if self.readiness.replace(readiness) != Some(readiness) {
            out += &format!("{now} gateway {readiness}\n");
        }
        self.servers = report.servers.iter().map(|server| (server.server.clone(), server.clone())).collect();
        out
    }
}

fn line(server: &ServerReport) -> String {
    let mut line = format!("{} {}", server.server, server.state);
    let figures = [
        ("tools", server.tools),
        ("calls", Some(server.calls.calls)),
        ("restarts", Some(server.restarts)),
        ("pid", server.pid.map(u64::from)),
    ];
    for (name, figure) in figures {
        if let Some(figure) = figure {
            line += &format!(" {name}={figure}");
        }
    }
    if let Some(trouble) = server.last_problem() {
        line += &format!(" error={trouble:?}");
    }
    // Text from servers must not start another line.
    style::clean(&line).replace('\n', " ")
}

/// Draws a text over the whole terminal, as much of it as fits.
fn screen(text: &str, rows: usize) -> String {
    let lines = text.lines().take(rows.saturating_sub(1));
    let lines: String = lines.map(|line| format!("{line}{REST_OF_LINE}\n")).collect();
    format!("{HOME}{lines}{REST_OF_SCREEN}")
}

/// Returns the height of the terminal.
fn rows() -> usize {
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_row > 0
    {
        return usize::from(size.ws_row);
    }
    usize::MAX
}

const CLEAR: &str = "\x1b[2J";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
/// How often the terminal is redrawn if nothing changes.
const TICK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: &str, calls: u64, ready: bool) -> StatusReport {
        let server = serde_json::json!({
            "server": "a", "state": state, "for_s": calls, "tools": 2, "restarts": 0, "queues": [],
            "calls": {"calls": calls, "failures": 0, "unknown": 0, "in_flight": 0},
            "last_error": {"text": "x\u{1b}[2J\ny", "ago_s": calls},
        });
        serde_json::from_value(serde_json::json!({"ready": ready, "servers": [server]})).unwrap()
    }

    #[test]
    fn a_change_is_a_line_and_a_call_is_none() {
        let mut lines = LastStatus::default();
        let mut next = |report: &StatusReport| {
            lines.changed_lines(report).lines().map(|line| line[25..].to_owned()).collect::<Vec<_>>()
        };
        let first = next(&report("ready", 0, true));
        assert_eq!(first.len(), 2, "{first:?}");
        assert!(first[0].starts_with("a ready tools=2 calls=0 restarts=0 error="), "{first:?}");
        assert!(!first[0].contains('\u{1b}'), "{first:?}");
        assert_eq!(first[1], "gateway ready");
        assert!(next(&report("ready", 7, true)).is_empty());
        let failed = next(&report("failed", 8, false));
        assert!(failed[0].starts_with("a failed ") && failed[1] == "gateway not ready", "{failed:?}");
        let gone = StatusReport { servers: Vec::new(), ..report("ready", 0, false) };
        assert_eq!(next(&gone), ["a removed"]);
    }

    #[test]
    fn a_screen_shows_what_there_is_room_for() {
        assert_eq!(screen("a\nb\nc\n", 3), "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
    }
}
