//! The example does what its README says.

use std::process::Command;

#[test]
fn the_clock_is_asked_again_where_that_is_safe_and_not_at_all_for_a_tool_that_it_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = folder.path().join("logic.wasm");
    std::fs::write(&wasm, &*toolgate::logic::EMBEDDED).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_in-memory")).arg(&wasm).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let readme = include_str!("../README.md");
    for line in stdout.lines() {
        assert!(readme.contains(line), "the README does not show this line: {line}\n{stdout}");
    }
    assert_eq!(stdout.lines().count(), 5, "{stdout}");
}

#[test]
fn the_program_has_less_than_a_hundred_lines() {
    assert!(include_str!("../src/main.rs").lines().count() < 100);
}
