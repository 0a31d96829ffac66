//! The example does what its README says.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the plugin as its author would.
fn plugin() -> PathBuf {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reporter");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(plugin).args(["build", "--locked", "--target", "wasm32-wasip2", "--target-dir"]).arg(&target);
    for name in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    assert!(cargo.status().expect("cargo starts").success(), "the plugin does not build");
    target.join("wasm32-wasip2/debug/reporter.wasm")
}

#[test]
fn a_plugin_calls_what_it_was_granted_and_is_refused_the_rest() {
    let output = Command::new(env!("CARGO_BIN_EXE_plugin-host")).arg(plugin()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let readme = include_str!("../README.md");
    for line in stdout.lines() {
        assert!(readme.contains(line), "the README does not show this line: {line}\n{stdout}");
    }
    for (name, code) in [
        ("demo.forecast", "Code::Ok"),
        ("demo.fail", "Code::NotAllowed"),
        ("vault.echo", "Code::UnknownServer"),
        ("demo__add", "Code::Ok"),
        ("vault__echo", "Code::NeedsAuth"),
    ] {
        assert!(stdout.contains(&format!("{name}: {code}: ")), "{name} is not {code}:\n{stdout}");
    }
}

#[test]
fn a_file_that_is_no_plugin_is_said_to_be_none() {
    let output = Command::new(env!("CARGO_BIN_EXE_plugin-host")).arg(file!()).output().unwrap();
    assert!(!output.status.success());
    let output = Command::new(env!("CARGO_BIN_EXE_plugin-host")).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("which plugin?"));
}
