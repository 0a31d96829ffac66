//! The keys of a configuration file: one table per section.

pub(super) mod auth;
pub(super) mod gateway;
pub(super) mod inputs;
pub(super) mod lifecycle;
pub(super) mod masking;
pub(super) mod queues;
pub(super) mod record;
pub(super) mod results;
pub(super) mod rules;
pub(super) mod server;
pub(super) mod settings;
pub(super) mod shadow;
