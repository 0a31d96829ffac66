//! Tests OAuth against a real authorization server and a server that it protects, each on a port of its own.

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
