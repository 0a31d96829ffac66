//! Tests files that other users of the machine can write, and patterns that match nothing.

mod cache;
mod log;
mod patterns;
mod shared;
