//! What the tests and benches share.

pub mod bare;
pub mod client;
pub mod generate;
pub mod native;
pub mod race;

use toolgate::logic::{Cache, Component, Options, Supervisor};

/// The built-in component, compiled once for all tests of a machine.
pub fn component() -> Component {
    let folder = std::env::temp_dir().join(format!("toolgate-tests-{}", env!("CARGO_PKG_VERSION")));
    let options = Options { cache: Cache::Dir(folder), ..Options::default() };
    Component::embedded(&options).expect("the built-in component loads")
}

/// The built-in component, running.
pub fn supervisor() -> Supervisor {
    Supervisor::new(component()).expect("the built-in component starts")
}
