//! Prints rights, and changes of rights, as a table, JSON, CSV or an HTML page.

use std::collections::BTreeMap;

use crate::access::{AccessChange, AccessRight, AccessTool, ChangeDirection};
use crate::json::to_raw;
use crate::registry::UnmatchedRule;
use serde::Serialize;

use super::page;
use crate::cli::context::CliContext;
use crate::cli::error::CliError;
use crate::cli::requests::UnansweredServer;
use crate::cli::style::write_note;
use crate::cli::table;

/// The report, as `--json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) struct AccessReport {
    #[serde(flatten)]
    found: ReportRows,
    failed: Vec<UnansweredServer>,
    /// Rules that match no tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<RuleWarning>,
}

/// A rule that is probably a mistake.
#[derive(Serialize)]
struct RuleWarning {
    server: String,
    text: String,
}

/// The rows of a report.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReportRows {
    /// The rights of all principals.
    Access(Vec<AccessRow>),
    /// The rights that have changed.
    Changes(Vec<ChangeRow>),
}

/// The right of one principal to one tool.
#[derive(Serialize)]
pub(super) struct AccessRow {
    principal: String,
    #[serde(flatten)]
    tool: RowTool,
    #[serde(flatten)]
    right: RowVerdict,
}

/// A changed right of one principal to one tool.
#[derive(Serialize)]
pub(super) struct ChangeRow {
    principal: String,
    #[serde(flatten)]
    tool: RowTool,
    change: &'static str,
    before: RowVerdict,
    after: RowVerdict,
}

#[derive(Serialize)]
struct RowTool {
    name: String,
    server: String,
    tool: String,
    destructive: bool,
    read_only: bool,
    /// The client capabilities without which its server does not show the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<&'static str>,
}

#[derive(Serialize)]
struct RowVerdict {
    verdict: &'static str,
    rule: String,
    trace: Vec<String>,
}

impl ReportRows {
    /// Returns the rows of who may call what.
    pub(super) fn rights<'a>(rows: impl Iterator<Item = (&'a str, &'a AccessTool, &'a AccessRight)>) -> Self {
        let row = |(principal, tool, right): (&str, &AccessTool, &AccessRight)| AccessRow {
            principal: principal.to_owned(),
            tool: RowTool::of(tool, &[right]),
            right: RowVerdict::of(right),
        };
        ReportRows::Access(rows.map(row).collect())
    }

    /// Returns the rows of changed rights.
    pub(super) fn changes(found: &[AccessChange]) -> Self {
        let changed = |change: &AccessChange| ChangeRow {
            principal: change.principal.clone(),
            tool: RowTool::of(&change.tool, &[&change.after, &change.before]),
            change: change.direction().name(),
            before: RowVerdict::of(&change.before),
            after: RowVerdict::of(&change.after),
        };
        ReportRows::Changes(found.iter().map(changed).collect())
    }
}

impl AccessReport {
    /// Creates a report with the rules that match no tool, which people see in the log.
    pub(super) fn new(found: ReportRows, failed: Vec<UnansweredServer>, unmatched: Vec<UnmatchedRule>) -> Self {
        let warned = |rule: UnmatchedRule| RuleWarning { server: rule.warning.server, text: rule.warning.text };
        AccessReport { found, failed, warnings: unmatched.into_iter().map(warned).collect() }
    }
}

impl RowTool {
    /// Describes a tool by the name that the principal sees, or else by the name that an unrestricted principal sees.
    fn of(item: &AccessTool, rights: &[&AccessRight]) -> Self {
        let shown = rights.iter().find_map(|right| right.name.as_ref());
        RowTool {
            name: shown.unwrap_or(&item.name).clone(),
            server: item.tool.server.clone(),
            tool: item.tool.tool.clone(),
            destructive: item.destructive,
            read_only: item.read_only,
            needs: item.needs.clone(),
        }
    }

    /// Adds to a rule what a client needs to be shown the tool, if the principal may use it.
    fn why(&self, right: &RowVerdict, rule: &str) -> String {
        match right.verdict {
            "deny" => rule.to_owned(),
            _ if self.needs.is_empty() => rule.to_owned(),
            _ => format!("{rule}; the client needs {}", self.needs.join(", ")),
        }
    }
}

impl RowVerdict {
    fn of(right: &AccessRight) -> Self {
        RowVerdict { verdict: right.verdict.name(), rule: right.rule.clone(), trace: right.trace.clone() }
    }
}

/// How a report is printed.
#[derive(Clone, Copy)]
pub(super) enum ReportFormat {
    /// A table for people, and a summary.
    Table,
    /// JSON.
    Json,
    /// Comma-separated values.
    Csv,
    /// One HTML page.
    Html,
}

/// Prints the report in this format.
pub(super) fn print(context: &CliContext, format: ReportFormat, report: &AccessReport) -> Result<(), CliError> {
    match format {
        ReportFormat::Json => context.print_json(report),
        ReportFormat::Csv => context.print(&csv(report)),
        ReportFormat::Html => context.print_colored(&page::page(&context.redact(to_raw(report).get()))),
        ReportFormat::Table => {
            context.print_colored(&draw_table(report))?;
            summary(report);
            Ok(())
        }
    }
}

fn draw_table(report: &AccessReport) -> String {
    match &report.found {
        ReportRows::Access(rows) => {
            let cells = rows.iter().map(|AccessRow { principal, tool, right }| {
                [principal.clone(), tool.name.clone(), right.verdict.to_owned(), tool.why(right, &right.rule)]
            });
            table::draw_figures(&["PRINCIPAL", "TOOL", "MAY", "WHY"], cells)
        }
        ReportRows::Changes(rows) => {
            let cells = rows.iter().map(|row| {
                let verdicts = format!("{} → {}", row.before.verdict, row.after.verdict);
                [
                    row.principal.clone(),
                    row.tool.name.clone(),
                    row.change.to_owned(),
                    verdicts,
                    row.tool.why(&row.after, &row.why()),
                ]
            });
            table::draw_figures(&["PRINCIPAL", "TOOL", "CHANGE", "MAY", "WHY"], cells)
        }
    }
}

impl ChangeRow {
    /// Returns the rule that denies or asks now, or that did so before.
    fn why(&self) -> String {
        match self.after.verdict {
            "allow" => format!("before: {}", self.before.rule),
            _ => self.after.rule.clone(),
        }
    }
}

/// Prints the counts below the table.
fn summary(report: &AccessReport) {
    match &report.found {
        ReportRows::Access(rows) if rows.is_empty() => write_note("no tool matches"),
        ReportRows::Access(rows) => {
            let mut counts = BTreeMap::<_, usize>::new();
            rows.iter().for_each(|row| *counts.entry(row.right.verdict).or_default() += 1);
            let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
            write_note(&counts.join(", "));
        }
        ReportRows::Changes(changes) => {
            let count =
                |direction: ChangeDirection| changes.iter().filter(|change| change.change == direction.name()).count();
            let failed: Vec<_> = report.failed.iter().map(|failed| failed.server.as_str()).collect();
            match (changes.is_empty(), failed.is_empty()) {
                (true, true) => write_note("nobody may do more or less than before"),
                (true, false) => write_note("no change was found in what could be compared"),
                (false, _) => {
                    let (granted, taken) = (count(ChangeDirection::Granted), count(ChangeDirection::Taken));
                    write_note(&format!("{granted} granted, {taken} taken"));
                }
            }
            if !failed.is_empty() {
                let (servers, they) = (failed.join(", "), if failed.len() == 1 { "it" } else { "they" });
                write_note(&format!("not compared, because {they} could not be reached: {servers}"));
            }
        }
    }
}

/// Formats the report as comma-separated values (RFC 4180).
fn csv(report: &AccessReport) -> String {
    let line =
        |principal: &str, RowTool { name, server, tool, destructive, read_only, needs }: &RowTool, found: &[&str]| {
            let start = [principal, name, server, tool].into_iter().chain(found.iter().copied());
            let start: String = start.map(|cell| field(cell) + ",").collect();
            format!("{start}{destructive},{read_only},{}\r\n", needs.join(" "))
        };
    match &report.found {
        ReportRows::Access(rows) => {
            let lines = rows
                .iter()
                .map(|AccessRow { principal, tool, right }| line(principal, tool, &[right.verdict, &right.rule]));
            "principal,name,server,tool,verdict,rule,destructive,read_only,needs\r\n".to_owned()
                + &lines.collect::<String>()
        }
        ReportRows::Changes(rows) => {
            let lines = rows.iter().map(|row| {
                let found = [row.change, row.before.verdict, row.after.verdict, &row.why()];
                line(&row.principal, &row.tool, &found)
            });
            "principal,name,server,tool,change,before,after,rule,destructive,read_only,needs\r\n".to_owned()
                + &lines.collect::<String>()
        }
    }
}

/// Quotes one value. Names come from servers, so a text that a spreadsheet would take for a formula is escaped.
fn field(text: &str) -> String {
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    match text.contains(['"', ',']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_value_and_no_formula() {
        let rows = [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("denied: tool \"x\" is not selected", "\"denied: tool \"\"x\"\" is not selected\""),
            ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
            ("a\r\nb", "ab"),
        ];
        for (text, expected) in rows {
            assert_eq!(field(text), expected, "{text}");
        }
    }
}
