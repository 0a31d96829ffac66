//! Checks `cases/seeds.md`: every feature of the seeds is here or differs for a reason, and every proof exists.

use std::path::Path;

#[test]
fn every_feature_of_the_seeds_has_its_proof() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a folder of the repository");
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap();
    let mut wrong = Vec::new();
    let mut rows = 0;
    for (line, number) in page.lines().zip(1..) {
        let Some(cells) = cells(line) else { continue };
        rows += 1;
        wrong.extend(problems(&cells, root).into_iter().map(|problem| format!("{PAGE}:{number}: {problem}")));
    }
    assert!(rows > 60, "{PAGE} has only {rows} rows");
    assert!(wrong.is_empty(), "{} problems in {rows} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// The cells of a row, unless the line is none, or the head of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.strip_prefix('|')?.trim_end();
    let cells: Vec<&str> = inside.strip_suffix('|').unwrap_or(inside).split('|').map(str::trim).collect();
    let is_head = cells[0] == "feature" || cells[0].starts_with("---");
    (!is_head).then_some(cells)
}

/// What is wrong with a row.
fn problems(cells: &[&str], root: &Path) -> Vec<String> {
    let [feature, here, proof, reason] = *cells else {
        return vec![format!("expected 4 cells, found {}: {cells:?}", cells.len())];
    };
    // What stands between backticks is a reference, and there are only commas around them.
    let (words, references): (Vec<_>, Vec<_>) = proof.split('`').enumerate().partition(|(at, _)| at % 2 == 0);
    let mut found = Vec::new();
    if !["yes", "differs"].contains(&here) {
        found.push(format!("`here` is {here:?}, and must be yes or differs: {feature}"));
    }
    if here == "yes" && references.is_empty() {
        found.push(format!("no test proves this: {feature}"));
    }
    if here == "differs" && reason.is_empty() {
        found.push(format!("no reason why this differs: {feature}"));
    }
    for (_, word) in words {
        let word = word.trim_matches([',', ' ']);
        if !word.is_empty() {
            found.push(format!("this is no reference to a test: {word}"));
        }
    }
    found.extend(references.into_iter().filter_map(|(_, reference)| missing(reference, root)));
    found
}

/// What is missing of a test: its file, or the test in it.
fn missing(reference: &str, root: &Path) -> Option<String> {
    let Some((file, name)) = reference.split_once("::") else {
        return Some(format!("{reference:?} is not written as file::test"));
    };
    let Ok(text) = std::fs::read_to_string(root.join(file)) else {
        return Some(format!("there is no file {file:?}"));
    };
    let expected = match file.rsplit('.').next() {
        Some("rs") => format!("fn {name}("),
        Some("py") => format!("def {name}("),
        Some("json") => format!("\"{name}\""),
        _ => return Some(format!("{file:?} has no tests: it must end in .rs, .py or .json")),
    };
    (!text.contains(&expected)).then(|| format!("{file} has no {expected}"))
}

const PAGE: &str = "tests/cases/seeds.md";
