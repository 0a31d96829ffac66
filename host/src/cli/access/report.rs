//! Prints rights, and changes of rights, as a table, JSON, CSV or an HTML page.

use std::collections::BTreeMap;

use crate::access::{AccessChange, AccessRight, AccessTool, ChangeDirection};
use crate::logic::types::filtering::Verdict;
use crate::registry::UnmatchedRule;
use serde::Serialize;

use super::{Args, page};
use crate::cli::context::{CliContext, print_note};
use crate::cli::error::CliError;
use crate::cli::requests::FailedServer;
use crate::cli::table;

/// The report, as `--json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub struct AccessReport {
    #[serde(flatten)]
    found: ReportRows,
    failed: Vec<FailedServer>,
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

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ReportRows {
    /// The rights of all principals.
    Access(Vec<AccessRow>),
    /// The rights that have changed.
    Changes(Vec<ChangeRow>),
}

/// The right of one principal to one tool.
#[derive(Serialize)]
struct AccessRow {
    principal: String,
    #[serde(flatten)]
    tool: RowTool,
    #[serde(flatten)]
    right: RowVerdict,
}

/// A changed right of one principal to one tool.
#[derive(Serialize)]
struct ChangeRow {
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
}

#[derive(Serialize)]
struct RowVerdict {
    verdict: &'static str,
    rule: String,
    trace: Vec<String>,
}

impl AccessReport {
    /// Creates a report of who may call what.
    pub fn rights(rows: Vec<(&str, &AccessTool, &AccessRight)>, failed: Vec<FailedServer>) -> Self {
        let row = |(principal, tool, right): (&str, &AccessTool, &AccessRight)| AccessRow {
            principal: principal.to_owned(),
            tool: RowTool::of(tool, &[right]),
            right: RowVerdict::of(right),
        };
        AccessReport { found: ReportRows::Access(rows.into_iter().map(row).collect()), failed, warnings: Vec::new() }
    }

    /// Creates a report of changed rights.
    pub fn changes(found: &[AccessChange], failed: Vec<FailedServer>) -> Self {
        let changed = |change: &AccessChange| ChangeRow {
            principal: change.principal.clone(),
            tool: RowTool::of(&change.tool, &[&change.after, &change.before]),
            change: change.direction().name(),
            before: RowVerdict::of(&change.before),
            after: RowVerdict::of(&change.after),
        };
        AccessReport { found: ReportRows::Changes(found.iter().map(changed).collect()), failed, warnings: Vec::new() }
    }

    /// Adds the rules that match no tool, which people see in the log.
    pub fn with_warnings(mut self, rules: Vec<UnmatchedRule>) -> Self {
        let warned = |rule: UnmatchedRule| RuleWarning { server: rule.warning.server, text: rule.warning.text };
        self.warnings = rules.into_iter().map(warned).collect();
        self
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
        }
    }
}

impl RowVerdict {
    fn of(right: &AccessRight) -> Self {
        let verdict = match right.verdict {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        };
        RowVerdict { verdict, rule: right.rule.clone(), trace: right.trace.clone() }
    }
}

/// Prints the report in the format that the options select.
pub fn print(context: &CliContext, args: &Args, answer: &AccessReport) -> Result<(), CliError> {
    match (args.servers.json, args.csv, args.html) {
        (true, _, _) => context.print_json(answer),
        (_, true, _) => context.print(&csv(answer)),
        (_, _, true) => context.print_colored(&page::page(&context.redact(&json(answer)))),
        _ => {
            context.print_colored(&draw_table(answer))?;
            summary(answer);
            Ok(())
        }
    }
}

fn json(answer: &AccessReport) -> String {
    serde_json::to_string(answer).expect("shapes have string keys only, so they are always JSON")
}

fn draw_table(answer: &AccessReport) -> String {
    match &answer.found {
        ReportRows::Access(rows) => {
            let cells = rows.iter().map(|row| {
                [row.principal.clone(), row.tool.name.clone(), row.right.verdict.to_owned(), row.right.rule.clone()]
            });
            table::draw_figures(["PRINCIPAL", "TOOL", "MAY", "WHY"], cells)
        }
        ReportRows::Changes(changes) => {
            let cells = changes.iter().map(|change| {
                [
                    change.principal.clone(),
                    change.tool.name.clone(),
                    change.change.to_owned(),
                    format!("{} → {}", change.before.verdict, change.after.verdict),
                    why(change),
                ]
            });
            table::draw_figures(["PRINCIPAL", "TOOL", "CHANGE", "MAY", "WHY"], cells)
        }
    }
}

/// Returns the rule that denies or asks now, or that did so before.
fn why(change: &ChangeRow) -> String {
    match change.after.verdict {
        "allow" => format!("before: {}", change.before.rule),
        _ => change.after.rule.clone(),
    }
}

/// Prints the counts below the table.
fn summary(answer: &AccessReport) {
    match &answer.found {
        ReportRows::Access(rows) if rows.is_empty() => print_note("no tool matches"),
        ReportRows::Access(rows) => {
            let mut counts = BTreeMap::<_, usize>::new();
            rows.iter().for_each(|row| *counts.entry(row.right.verdict).or_default() += 1);
            let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
            print_note(&counts.join(", "));
        }
        ReportRows::Changes(changes) => {
            let count =
                |direction: ChangeDirection| changes.iter().filter(|change| change.change == direction.name()).count();
            let failed: Vec<_> = answer.failed.iter().map(|failed| failed.server.as_str()).collect();
            match (changes.is_empty(), failed.is_empty()) {
                (true, true) => print_note("nobody may do more or less than before"),
                (true, false) => print_note("no change was found in what could be compared"),
                (false, _) => print_note(&format!(
                    "{} granted, {} taken",
                    count(ChangeDirection::Granted),
                    count(ChangeDirection::Taken)
                )),
            }
            if !failed.is_empty() {
                let (servers, asked) = (failed.join(", "), if failed.len() == 1 { "it" } else { "they" });
                print_note(&format!("not compared, because {asked} could not be reached: {servers}"));
            }
        }
    }
}

/// Formats the report as comma-separated values (RFC 4180).
fn csv(answer: &AccessReport) -> String {
    let mut out = String::new();
    let mut line = |cells: &[&str]| {
        let cells: Vec<_> = cells.iter().map(|cell| field(cell)).collect();
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    };
    let flag = |flag| if flag { "true" } else { "false" };
    match &answer.found {
        ReportRows::Access(rows) => {
            line(&["principal", "name", "server", "tool", "verdict", "rule", "destructive", "read_only"]);
            for AccessRow { principal, tool, right } in rows {
                let RowTool { name, server, tool, destructive, read_only } = tool;
                line(&[
                    principal,
                    name,
                    server,
                    tool,
                    right.verdict,
                    &right.rule,
                    flag(*destructive),
                    flag(*read_only),
                ]);
            }
        }
        ReportRows::Changes(changes) => {
            line(&[
                "principal",
                "name",
                "server",
                "tool",
                "change",
                "before",
                "after",
                "rule",
                "destructive",
                "read_only",
            ]);
            for change in changes {
                let RowTool { name, server, tool, destructive, read_only } = &change.tool;
                let (before, after) = (change.before.verdict, change.after.verdict);
                let flags = (flag(*destructive), flag(*read_only));
                line(&[
                    &change.principal,
                    name,
                    server,
                    tool,
                    change.change,
                    before,
                    after,
                    &why(change),
                    flags.0,
                    flags.1,
                ]);
            }
        }
    }
    out
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
