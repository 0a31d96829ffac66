//! One gate between an AI agent and the tools of many MCP servers.
//!
//! A pure WebAssembly component (world `logic` of `wit/`) makes every decision; this crate runs it, and carries out
//! what it decides. A [`registry::Registry`] keeps the configured servers alive, and a [`gate::Gate`] is one
//! agent's view of them:
//!
//! ```
//! use std::{collections::HashMap, path::Path, sync::Arc};
//! use toolgate::gate::{CallOptions, CloseMode, Gate, GateView};
//! use toolgate::logic::types::execution::ToolCall;
//! use toolgate::logic::{Component, ComponentOptions};
//! use toolgate::registry::{Registry, RegistryOptions};
//! use toolgate::transport::Connect;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let component = Component::embedded(&ComponentOptions::default())?;
//! let config = toolgate::config::parse("servers: {demo: {command: toolgate, args: [demo-server]}}", Path::new("toolgate.yaml"))?;
//! // This runs the demo server inside this process; without it, the command above would be started.
//! let transports = HashMap::from([("demo".to_owned(), Arc::new(toolgate::demo::InProcessDemo) as Arc<dyn Connect>)]);
//! let registry = Registry::new(&component, config, RegistryOptions { transports, ..Default::default() })?;
//!
//! let gate = Gate::open(&registry, GateView::default())?;
//! gate.refresh().await;
//! assert!(gate.tools(&gate.style())?.iter().any(|tool| tool.name == "demo__add"));
//!
//! let call = ToolCall { id: "1".into(), name: "demo.add".into(), arguments: "a: 1, b: 2".into() };
//! let called = gate.call(call, &CallOptions::default()).await?;
//! assert_eq!(called.result.text, "3");
//!
//! gate.close(CloseMode::Cancel).await;
//! registry.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! To give your own components the tools of a gate, or the transports below it, use [`add_to_linker`].
//!
//! # Features
//!
//! All but the last are on by default; what only a disabled feature needs is not compiled.
//!
//! - `cli`: the binary `toolgate`; includes `gateway`.
//! - `gateway`: one MCP server for all of yours, on standard input and output, HTTP and a socket.
//! - `oauth`: OAuth for remote servers.
//! - `otel`: spans of calls for an OpenTelemetry collector.

#![cfg_attr(not(test), warn(unreachable_pub))]
#![cfg_attr(not(feature = "gateway"), allow(dead_code, unused_imports, reason = "only the gateway uses them"))]

pub mod config;
pub mod extension;
pub mod failure;
pub mod gate;
#[cfg(feature = "gateway")]
pub mod gateway;
pub mod logic;
pub mod record;
pub mod registry;
pub mod session;
pub mod store;
pub mod transport;

// For the command line, the tests and the benches.
#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod agent;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod decide;
#[doc(hidden)]
pub mod demo;
#[doc(hidden)]
pub mod eval;
#[doc(hidden)]
pub mod json;
#[cfg(feature = "oauth")]
#[doc(hidden)]
pub mod oauth;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod rpc;
#[doc(hidden)]
pub mod shadow;
#[doc(hidden)]
pub mod visible;
#[doc(hidden)]
pub mod wit;
#[doc(hidden)]
pub mod words;

mod calendar;
mod condense;
mod contract_json;
mod finished_call;
mod gate_settings;
mod hour;
#[cfg(test)]
mod listening;
mod lock;
mod ownership;
mod packed;
mod plan;
mod private_files;
mod sha256;
mod spill;
mod spin_wait;
mod stats;
mod summarize;
#[doc(hidden)]
pub mod telemetry;
mod tool_texts;
mod web;

pub use extension::{ToolgateCtx, ToolgateView, add_to_linker};
