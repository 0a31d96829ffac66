//! The keys of a configuration file: one table per section.

pub mod auth;
pub mod gateway;
pub mod inputs;
pub mod lifecycle;
pub mod masking;
pub mod queues;
pub mod record;
pub mod results;
pub mod server;
pub mod settings;
pub mod shadow;
