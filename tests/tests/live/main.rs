//! Tests sessions, gates and transports against real servers that misbehave on purpose.

mod calls;
mod eras;
mod fixtures;
mod gateway;
mod headers;
mod lives;
mod record;
mod sessions;
mod web;
mod world;
