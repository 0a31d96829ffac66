//! Runs the marked console blocks of the book and the README, and checks that they print what they show.

use std::path::{Path, PathBuf};

use crate::place::Place;

/// What stands before a block that is run.
const MARKED: &str = "<!-- run -->\n```console\n";

#[test]
fn blocks_that_are_marked_print_what_they_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![root.join("README.md")];
    pages_below(&root.join("docs/src"), &mut pages);
    let mut blocks = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for rest in text.split(MARKED).skip(1) {
            let (block, _) = rest.split_once("\n```").expect("a block ends");
            check(&page, block);
            blocks += 1;
        }
    }
    assert!(blocks >= 5, "only {blocks} blocks are marked");
}

fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Runs the commands of a block one after the other in a place of its own.
fn check(page: &Path, block: &str) {
    let place = Place::new();
    for (command, shown) in steps(block) {
        // A file that a block shows is there for the commands that follow.
        if let Some(file) = command.strip_prefix("cat ") {
            place.file(&format!("work/{file}"), shown);
            continue;
        }
        let printed = run(&place, &command);
        assert_eq!(trimmed(&printed), trimmed(&shown), "{}: {command}", page.display());
    }
}

/// The commands of a block, each with what is shown below it.
fn steps(block: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut in_document = false;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            in_document = command.ends_with("<<'EOF'");
            steps.push((command.to_owned(), String::new()));
            continue;
        }
        let (command, shown) = steps.last_mut().expect("a block begins with a command");
        if in_document {
            command.push('\n');
            command.push_str(line);
            in_document = line != "EOF";
        } else {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    steps
}

/// What a command prints at a shell, standard error among it.
fn run(place: &Place, command: &str) -> String {
    let mut shell = place.program("sh", &["-c", &format!("exec 2>&1\n{command}")]);
    String::from_utf8(shell.output().expect("a shell starts").stdout).expect("it prints UTF-8")
}

/// The lines without blanks at their ends, which tables have and pages do not.
fn trimmed(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}
