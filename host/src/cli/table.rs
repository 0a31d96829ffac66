//! Tables for people, as wide as the terminal.

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::style;

/// Draws rows under a header; long cells wrap on a terminal, and elsewhere each row is one line.
pub(super) fn draw<R: IntoIterator<Item = String>>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    // People copy names, so names never wrap.
    lay(head, rows, 1)
}

/// Draws rows that follow others under the same header.
pub(super) fn draw_more<R: IntoIterator<Item = String>>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    // Its header is one line, since the titles are short.
    draw(head, rows).split_once('\n').map_or_else(String::new, |(_, rows)| rows.to_owned())
}

/// Draws rows of figures under a header; only the last column wraps.
pub(super) fn draw_figures<R: IntoIterator<Item = String>>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    lay(head, rows, head.len() - 1)
}

/// Returns the width of the terminal, if there is one.
pub(super) fn width() -> Option<u16> {
    // A terminal that does not know its size reports 0.
    Table::new().width().map(|width| if width == 0 { USUAL } else { width })
}

/// Draws rows whose first `whole` columns never wrap.
fn lay<R: IntoIterator<Item = String>>(head: &[&str], rows: impl IntoIterator<Item = R>, whole: usize) -> String {
    let style = style::stdout();
    let mut table = Table::new();
    if let Some(width) = width() {
        table.set_width(width);
    }
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().map(|title| {
        let cell = Cell::new(title);
        if style.is_colourful() { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    for row in rows {
        // A cell is one line, so that text from a server cannot look like another row.
        table.add_row(row.into_iter().enumerate().map(|(place, text)| {
            let cell = Cell::new(style::clean(&text).replace('\n', " "));
            let is_verdict = style.is_colourful() && head.get(place).is_some_and(|title| VERDICTS.contains(title));
            match colour_of(&text).filter(|_| is_verdict) {
                Some(colour) => cell.fg(colour),
                None => cell,
            }
        }));
    }
    if table.is_empty() {
        return String::new();
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        let is_last = place + 1 == head.len();
        column.set_padding((0, if is_last { 0 } else { 2 }));
        if place < whole {
            column.set_constraint(ColumnConstraint::ContentWidth);
        } else if is_last {
            // Leave room for words on a narrow terminal.
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(20)));
        }
    }
    let drawn = table.to_string();
    let lines: Vec<&str> = drawn.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Returns the colour of a state or a verdict.
fn colour_of(word: &str) -> Option<Color> {
    match word {
        "ready" | "allow" => Some(Color::Green),
        "failed" | "deny" => Some(Color::Red),
        "needs-auth" | "degraded" | "restarting" | "ask" | "depends" => Some(Color::Yellow),
        _ => None,
    }
}

/// Returns the first line of a text, cut between words to what fits in a table.
pub(super) fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    let Some((end, _)) = line.char_indices().nth(CELL) else { return line.to_owned() };
    // A word that is nearly as long as the cell is cut.
    let between = line[..end].rfind(' ').filter(|space| *space > end / 2);
    format!("{}…", line[..between.unwrap_or(end)].trim_end_matches([' ', ',', ';', ':']))
}

/// Breaks a text between words so that its lines fit the terminal, if there is one. The first line begins after `used`
/// columns, and each further one with the indent.
pub(super) fn wrap(text: &str, used: usize, indent: &str) -> String {
    width().map_or_else(|| text.to_owned(), |width| wrap_at(text, usize::from(width), used, indent))
}

fn wrap_at(text: &str, width: usize, used: usize, indent: &str) -> String {
    let (mut out, mut column) = (String::new(), used);
    for (place, word) in text.split(' ').enumerate() {
        // A sign between two parts stays with the part before it.
        let needed = word.chars().count() + 2;
        if place > 0 && column + 1 + needed > width && word != "·" {
            out += &format!("\n{indent}");
            column = indent.chars().count();
        } else if place > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += word.chars().count();
    }
    out
}

/// Cuts a text to this many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats a number of things, such as `1 call` or `2 calls`.
pub(super) fn count_of(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Returns the first and the last line of a text; the last line that a server wrote often says why it failed.
pub(super) fn first_and_last_line(text: &str) -> String {
    let first = first_line(text);
    match text.trim().lines().skip(1).last() {
        Some(last) => format!("{first} {}", first_line(last)),
        None => first,
    }
}

/// The columns whose words have colours.
const VERDICTS: [&str; 2] = ["STATE", "MAY"];
const CELL: usize = 160;
/// The width of a terminal that does not report it.
const USUAL: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_and_cut_between_words() {
        let row = "stdio · modern 2026-07-28 · 6 tools, 1 resource · 14ms";
        let wrapped = wrap_at(row, 30, 8, "    ");
        assert_eq!(wrapped, "stdio · modern\n    2026-07-28 · 6 tools, 1\n    resource · 14ms");
        assert!(wrapped.lines().skip(1).all(|line| line.chars().count() <= 30), "{wrapped}");
        assert_eq!(wrap_at("a b", 80, 0, "  "), "a b");
        let long = "a sentence with words ".repeat(10);
        let cut = first_line(&long);
        assert!(cut.ends_with('…') && long.starts_with(cut.trim_end_matches('…')), "{cut}");
        assert!(long.as_bytes()[cut.len() - '…'.len_utf8()] == b' ', "{cut}");
        assert_eq!(first_line(&"x".repeat(200)).chars().count(), CELL + 1);
    }
}
