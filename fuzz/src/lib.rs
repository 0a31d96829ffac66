//! What the targets draw from their input: things in the shapes that matter, out of small pools.

pub mod schema;
pub mod session;
pub mod text;
