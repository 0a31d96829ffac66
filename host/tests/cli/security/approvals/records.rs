//! Tests that records hold nothing that was masked for the client, however it was spelled.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::place::{Place, and, demo, fixture, fixture_with};

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_was_masked_for_the_client_is_in_no_record_however_it_was_spelt() {
    let spelt = r#"{"p\u0061ssword": "hunter2hunter2"}"#;
    let twice = json!({"inner": spelt}).to_string();
    let place = Place::configured(&json!({
        "servers": {
            "demo": demo(),
            "says": and(fixture("describes"), json!({})),
            "fails": fixture_with("refuses-with", &[&format!("no: {spelt}")]),
        },
        "masking": {"groups": ["all"]},
    }));
    let text = |words: &str| json!({"text": words}).to_string();
    let calls = [
        ("demo.echo", text("plain")),
        ("demo.echo", text(spelt)),
        ("demo.echo", text(&twice)),
        ("demo.echo", text(&format!("it said {spelt}, twice"))),
        ("demo.echo", format!(" {}", text(spelt))),
        ("demo.add", spelt.to_owned()),
        ("says.do", r#"{"who":"x"}"#.to_owned()),
        ("fails.do", spelt.to_owned()),
    ];
    for (name, arguments) in &calls {
        let ran = place.run(&["call", name, arguments, "--record", "records", "--json"]);
        assert!(!ran.stdout.contains("hunter2hunter2"), "{ran:#?}");
    }
    let folder = place.path("work/records");
    let mut tools = 0;
    for path in files(&folder) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        for secret in ["hunter2hunter2", "bob@example.com"] {
            let at = text.find(secret);
            assert!(at.is_none(), "{}: {:?}", path.display(), at.map(|at| &text[at.saturating_sub(200)..at + 20]));
        }
        tools += usize::from(text.contains("use password: ["));
    }
    assert_eq!(tools, 1, "what the server says of its tool is there, masked");
    let bare = Place::new();
    let mut replay = bare.command(&["replay", &folder.display().to_string(), "--json"]);
    let report: Value = serde_json::from_slice(&replay.output().unwrap().stdout).unwrap();
    assert_eq!((&report["ok"], &report["calls"]), (&json!(true), &json!(calls.len())), "{report}");
}
