//! Calls as a table that can go on: one line each, as wide as the terminal.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::calendar;
use crate::cli::status::report::milliseconds;
use crate::cli::{style, table};
use crate::gate::LOCAL;
use crate::visible;

/// A call as people see it.
pub(super) struct CallRow {
    /// When it ended, as RFC 3339 writes it.
    at: String,
    id: String,
    /// Who made it, if not just the user who runs toolgate.
    principal: Option<String>,
    tool: String,
    code: String,
    took: String,
}

impl CallRow {
    /// Reads the row from a call as the API describes it; `redact` removes secrets.
    pub(super) fn new<'t>(call: &'t Value, redact: impl Fn(&'t str) -> Cow<'t, str>) -> Self {
        let text = |name: &str| call[name].as_str().map(|text| visible::escape(&redact(text)).into_owned());
        let tool = text("server").zip(text("tool")).map(|(server, tool)| format!("{server}.{tool}"));
        CallRow {
            at: text("at").unwrap_or_default(),
            id: text("id").unwrap_or_default().chars().take(ID).collect(),
            principal: text("principal").filter(|name| name != LOCAL),
            tool: tool.or_else(|| text("name")).unwrap_or_default(),
            code: text("code").unwrap_or_default(),
            took: call["latency_ms"].as_f64().map(milliseconds).unwrap_or_default(),
        }
    }
}

/// A table of calls that new rows can be added to.
pub(super) struct CallTable {
    /// The width of the terminal, if there is one.
    width: Option<usize>,
    /// Whether rows are going to be added.
    goes_on: bool,
    /// The columns; none before the first rows.
    columns: Option<Columns>,
}

/// The widths of the columns.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Columns {
    /// Whether times have their day.
    has_days: bool,
    /// None if no call has a principal worth showing.
    principal: Option<usize>,
    tool: usize,
    code: usize,
}

impl CallTable {
    /// Creates an empty table; one that goes on leaves room for rows that nobody has seen yet.
    pub(super) fn new(goes_on: bool) -> Self {
        CallTable { width: table::width().map(usize::from), goes_on, columns: None }
    }

    /// Draws more rows, below a header if they are the first ones or need other columns.
    pub(super) fn draw(&mut self, rows: &[CallRow]) -> String {
        let has_principals = rows.iter().any(|row| row.principal.is_some());
        let is_fitting = |columns: &Columns| columns.principal.is_some() || !has_principals;
        if rows.is_empty() {
            return String::new();
        }
        let mut out = String::new();
        let columns = match self.columns.filter(is_fitting) {
            Some(columns) => columns,
            None => {
                let columns = self.fit(rows);
                let head =
                    self.line(&columns, ["UTC", "ID", "PRINCIPAL", "TOOL", "CODE", "TOOK"].map(str::to_owned), |_| {
                        None
                    });
                out += &style::stdout().bold(&head);
                out.push('\n');
                self.columns = Some(columns);
                columns
            }
        };
        for row in rows {
            out += &self.row(&columns, row);
            out.push('\n');
        }
        out
    }

    /// Finds the widths for these rows.
    fn fit(&self, rows: &[CallRow]) -> Columns {
        let longest = |text: fn(&CallRow) -> &str| rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0);
        let is_recent = |row: &CallRow| {
            let at = calendar::parse(&row.at);
            at.is_some_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() < DAY)
        };
        let principals = longest(|row| row.principal.as_deref().unwrap_or_default());
        let mut columns = Columns {
            has_days: !rows.iter().all(is_recent),
            principal: (principals > 0).then(|| principals.clamp("PRINCIPAL".len(), MOST_PRINCIPAL)),
            tool: longest(|row| &row.tool).max("TOOL".len()),
            code: longest(|row| &row.code).max(if self.goes_on { USUAL_CODE } else { "CODE".len() }),
        };
        if self.goes_on {
            columns.tool = columns.tool.max(USUAL_TOOL);
        }
        if let Some(width) = self.width {
            columns.tool = columns.tool.min(width.saturating_sub(columns.fixed() + columns.code).max(LEAST_TOOL));
        }
        columns
    }

    fn row(&self, columns: &Columns, row: &CallRow) -> String {
        let CallRow { at, id, principal, tool, code, took } = row;
        // `2026-11-15T17:29:48.396Z`
        let at = if columns.has_days { at.get(5..19) } else { at.get(11..19) }.unwrap_or(at).replace('T', " ");
        let style = style::stdout();
        let paint = |code: &str| match code.trim_end() {
            "ok" => None,
            "tool-error" | "not-allowed" | "declined" | "cancelled" => Some(style.yellow(code)),
            _ => Some(style.red(code)),
        };
        let principal = principal.as_deref().unwrap_or("-").to_owned();
        self.line(columns, [at, id.clone(), principal, tool.clone(), code.clone(), took.clone()], paint)
    }

    /// Lays one line out; a code that is longer than its column takes the room from the tool.
    fn line(&self, columns: &Columns, cells: [String; 6], paint: impl Fn(&str) -> Option<String>) -> String {
        let [at, id, principal, tool, code, took] = cells;
        let mut line = format!("{at:<0$}  {id:<ID$}  ", columns.time());
        if let Some(width) = columns.principal {
            line += &format!("{:<width$}  ", fitted(&principal, width));
        }
        let extra = code.chars().count().saturating_sub(columns.code);
        let width = columns.tool.saturating_sub(extra).max(LEAST_TOOL.min(columns.tool));
        let tool = if self.width.is_some() { fitted(&tool, width) } else { tool };
        let code = format!("{code:<0$}", columns.code);
        line += &format!("{tool:<width$}  {}  {took:>TOOK$}", paint(&code).unwrap_or(code));
        line
    }
}

impl Columns {
    /// Returns the width of a time.
    fn time(&self) -> usize {
        if self.has_days { "11-15 17:29:48".len() } else { "17:29:48".len() }
    }

    /// Returns the width of everything but the tool and the code.
    fn fixed(&self) -> usize {
        let gaps = 2 * (4 + usize::from(self.principal.is_some()));
        self.time() + ID + self.principal.unwrap_or(0) + TOOK + gaps
    }
}

/// Cuts a text to a number of characters, of which the last says that something is missing.
fn fitted(text: &str, width: usize) -> String {
    if text.chars().count() <= width { text.to_owned() } else { table::cut(text, width.saturating_sub(1)) }
}

/// How many characters of an id are shown; calls rarely share so many.
const ID: usize = 8;
/// The width of a duration such as `0.13ms`.
const TOOK: usize = 7;
const MOST_PRINCIPAL: usize = 12;
const LEAST_TOOL: usize = 8;
/// The width for the tools of calls that are still to come.
const USUAL_TOOL: usize = 30;
/// The width for the codes of calls that are still to come.
const USUAL_CODE: usize = "tool-error".len();
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(more: Value) -> CallRow {
        let mut call = json!({
            "id": "0123456789abcdef", "at": "2020-11-15T17:29:48.396Z", "principal": "local", "server": "demo",
            "tool": "add", "name": "demo__add", "code": "ok", "latency_ms": 1.26,
        });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        CallRow::new(&call, Cow::Borrowed)
    }

    fn table(width: Option<usize>, goes_on: bool) -> CallTable {
        CallTable { width, goes_on, columns: None }
    }

    #[test]
    fn a_list_is_as_wide_as_its_calls() {
        let now = calendar::Utc::from(SystemTime::now()).to_string();
        let rows =
            [row(json!({})), row(json!({"server": null, "tool": null, "name": "x\u{1b}\ny", "code": "unknown-tool"}))];
        let expected = [
            "UTC             ID        TOOL           CODE             TOOK",
            "11-15 17:29:48  01234567  demo.add       ok              1.3ms",
            r"11-15 17:29:48  01234567  x\u{1b}\u{a}y  unknown-tool    1.3ms",
        ];
        assert_eq!(table(None, false).draw(&rows).lines().collect::<Vec<_>>(), expected);
        let drawn = table(None, false).draw(&[row(json!({"at": now}))]);
        assert!(drawn.contains(&format!("\n{}  01234567  demo.add  ok  ", &now[11..19])), "{drawn}");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let long = json!({"principal": "p".repeat(40), "tool": "t".repeat(100), "code": "restart-in-progress"});
        for goes_on in [false, true] {
            let mut table = table(Some(80), goes_on);
            let drawn =
                table.draw(&[row(json!({}))]) + &table.draw(&[row(long.clone()), row(json!({"principal": "ann"}))]);
            assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
            // Who calls is worth a column, which is added when it is needed.
            assert_eq!(drawn.matches("UTC").count(), 2, "{drawn}");
            assert!(drawn.contains("  ann           demo.add  "), "{drawn}");
            let later = table.draw(&[row(long.clone()), row(json!({"code": "restart-in-progress"}))]);
            assert!(later.lines().all(|line| line.chars().count() <= 80) && !later.contains("UTC"), "{later}");
        }
    }
}
