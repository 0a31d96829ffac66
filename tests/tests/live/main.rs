//! Sessions, gates and their transports against real servers written to misbehave.

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
