//! The decisions of toolgate, as plain Rust.
pub mod json;
pub mod types;
