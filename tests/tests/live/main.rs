//! Sessions, gates and their transports against real servers written to misbehave.

mod calls;
mod eras;
mod fixtures;
mod sessions;
mod web;
