//! Code that the tests and benches share.

pub mod bare;
pub mod client;
pub mod gateway;
pub mod generate;
pub mod native;
pub mod race;
pub mod rng;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use toolgate::logic::{Cache, Component, ComponentOptions, Supervisor};

/// Returns the built-in component, which is compiled once for all tests on a machine.
pub fn component() -> Component {
    let folder = std::env::temp_dir().join(format!("toolgate-tests-{}", env!("CARGO_PKG_VERSION")));
    let options = ComponentOptions { cache: Cache::Dir(folder), ..ComponentOptions::default() };
    Component::embedded(&options).expect("the built-in component loads")
}

/// Builds a component that misbehaves on demand, and returns its file.
pub fn faulty(folder: &str) -> PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let target = Path::new(folder).join("faulty");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(workspace).args(["build", "--locked", "-p", "toolgate-guest", "--example", "faulty"]);
        cargo.args(["--target", "wasm32-wasip2", "--target-dir"]).arg(&target);
        for name in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS"] {
            cargo.env_remove(name);
        }
        assert!(cargo.status().expect("cargo starts").success(), "the faulty component does not build");
        target.join("wasm32-wasip2/debug/examples/faulty.wasm")
    })
    .clone()
}

/// Starts a supervisor of the built-in component.
pub fn supervisor() -> Supervisor {
    Supervisor::new(component()).expect("the built-in component starts")
}
