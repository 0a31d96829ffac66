//! A gateway's report as JSON for programs, and as a table for people.

use crate::json::JsonObject;

use super::report::{GatewayInfo, ServerReport, StatusReport, age, milliseconds};
use crate::cli::error::CliError;
use crate::cli::remote::RemoteGateway;
use crate::cli::{style, table};

/// The page of the API with the report.
pub(super) const PAGE: &str = "api/v1/servers";

/// Reads the report.
pub(super) fn read(remote: &RemoteGateway, page: &str) -> Result<StatusReport, CliError> {
    serde_json::from_str(page).map_err(|error| remote.unexpected_answer(&error))
}

/// Prints the whole answer of the gateway as JSON.
pub(super) fn print_json(remote: &RemoteGateway, page: &str) -> Result<(), CliError> {
    let page = serde_json::from_str::<JsonObject>(page).map_err(|error| remote.unexpected_answer(&error))?;
    remote.printer.print_json(&page)
}

/// Draws the report for people; a narrow terminal gets fewer columns.
pub(super) fn draw(report: &StatusReport) -> String {
    let width = table::width().unwrap_or(u16::MAX);
    let columns: Vec<_> = COLUMNS.iter().filter(|column| column.least_width <= width).collect();
    let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
    let rows = report.servers.iter().map(|server| columns.iter().map(|column| (column.value)(server)));
    let table = match table::draw_figures(&titles, rows) {
        empty if empty.is_empty() => "the gateway has no servers\n".to_owned(),
        table => table,
    };
    format!("{}\n\n{table}", headline(report))
}

/// Describes the gateway on one line, and on the next why its file is not in effect.
fn headline(report: &StatusReport) -> String {
    let style = style::stdout();
    let readiness = report.readiness();
    let ready = if report.ready { style.green(readiness) } else { style.red(readiness) };
    let Some(about) = &report.gateway else { return ready };
    let GatewayInfo { pid, version, for_s, .. } = about;
    let refused: u64 = about.listeners.iter().map(|listener| listener.refused).sum();
    let mut parts = vec![format!("toolgate {version}"), format!("for {}", age(*for_s))];
    parts.extend(about.address().map(str::to_owned));
    parts.extend((refused > 0).then(|| format!("{refused} requests refused")));
    parts.extend(about.file.clone());
    let used = format!("gateway {pid} is {readiness} · ").chars().count();
    let parts = table::wrap(&style::clean(&parts.join(" · ")).replace('\n', " "), used, "  ");
    let mut problems = Vec::new();
    if let Some(why) = &about.not_applied {
        problems.push(format!("its configuration stays as it was: {why}"));
    }
    if about.store_lost {
        problems.push("its store has lost what was in it: see `toolgate context adopt`".to_owned());
    }
    let mut line = format!("gateway {pid} is {ready} · {parts}");
    for problem in problems {
        let text = table::wrap(&style::clean(&problem), 2, "  ");
        line.push_str(&format!("\n  {}", style.yellow(&text)));
    }
    line
}

/// A column of the table.
struct Column {
    title: &'static str,
    /// The least width of a terminal that shows it.
    least_width: u16,
    value: fn(&ServerReport) -> String,
}

impl Column {
    const fn vital(title: &'static str, value: fn(&ServerReport) -> String) -> Self {
        Column { title, least_width: 0, value }
    }

    const fn medium(title: &'static str, value: fn(&ServerReport) -> String) -> Self {
        Column { title, least_width: MEDIUM, value }
    }

    const fn wide(title: &'static str, value: fn(&ServerReport) -> String) -> Self {
        Column { title, least_width: WIDE, value }
    }
}

const COLUMNS: [Column; 19] = [
    Column::vital("SERVER", |server| server.server.clone()),
    Column::vital("STATE", |server| server.state.clone()),
    Column::vital("FOR", |server| age(server.for_s)),
    Column::wide("MCP", |server| or_dash(server.version.as_ref().or(server.era.as_ref()))),
    Column::wide("SOFTWARE", |server| or_dash(server.software.as_ref())),
    Column::wide("SCOPE", |server| or_dash(server.scope.as_ref())),
    Column::vital("TOOLS", |server| or_dash(server.tools)),
    Column::vital("CALLS", |server| server.calls.calls.to_string()),
    Column::vital("FAILED", |server| (server.calls.failures + server.calls.unknown).to_string()),
    Column::medium("TOOL ERRORS", |server| server.calls.tool_errors.to_string()),
    Column::medium("DENIED", |server| server.calls.denied.to_string()),
    Column::wide("P50", |server| or_dash(server.calls.p50_ms.map(milliseconds))),
    Column::medium("P90", |server| or_dash(server.calls.p90_ms.map(milliseconds))),
    Column::wide("P99", |server| or_dash(server.calls.p99_ms.map(milliseconds))),
    Column::wide("RUNNING", |server| server.calls.in_flight.to_string()),
    Column::medium("WAITING", |server| server.queues.iter().map(|queue| queue.waiting).sum::<u64>().to_string()),
    Column::wide("RESTARTS", |server| server.restarts.to_string()),
    Column::wide("PID", |server| or_dash(server.pid)),
    Column::vital("LAST ERROR", |server| or_dash(server.last_problem())),
];

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The least width for the columns that say how calls went.
const MEDIUM: u16 = 110;
/// The least width for all columns.
const WIDE: u16 = 180;
