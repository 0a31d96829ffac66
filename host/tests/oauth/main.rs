//! OAuth against a real authorization server and a server that it guards, both on ports of their own.

mod bench;
mod command;
mod consent;
mod guarded;
mod hostile;
mod issuing;
mod keeping;
mod machines;
#[path = "../cli/place.rs"]
#[expect(dead_code, reason = "what the tests of other commands need")]
mod place;
mod renewing;
mod rights;
mod world;
