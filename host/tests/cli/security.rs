//! Tests the promises of SECURITY.md against the real binary, with one file for each kind of attacker or mishap.
#![cfg(unix)]

mod approvals;
mod component;
mod door;
mod files;
mod laundering;
mod outbound;
mod rules;
mod secrets;
mod spelling;

use std::path::Path;

/// The names of all tests below a folder.
fn tests_below(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names =
                text.split("fn ").skip(1).filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_owned());
            found.extend(names);
        }
    }
}

#[test]
fn every_promise_of_the_security_page_has_its_test() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(host.join("../SECURITY.md")).unwrap();
    let mut tests = Vec::new();
    for folder in ["tests/cli", "tests/oauth", "src", "../tests/tests", "../guest/src"] {
        tests_below(&host.join(folder), &mut tests);
    }
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    for row in rows {
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 3).collect();
        assert!(!named.is_empty(), "no test proves {row}");
        for name in named {
            assert!(tests.iter().any(|test| test == name), "SECURITY.md names {name}, which is no test");
        }
    }
}
