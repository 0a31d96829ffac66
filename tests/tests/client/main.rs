//! Tests the component of world `client` in hosts of its own.

mod contract;
mod crowd;
mod extension;
mod failing;
