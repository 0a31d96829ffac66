//! One gate between an AI agent and the tools of many MCP servers.
//!
//! Every decision is made by a pure WebAssembly component (world `logic` of `wit/`); this crate runs it, and carries
//! out what it decides. A [`registry::Registry`] keeps the configured servers alive, and a [`gate::Gate`] is one
//! agent's view of them:
//!
//! ```
//! use std::{collections::HashMap, path::Path, sync::Arc};
//! use toolgate::gate::{CallOptions, Closing, Gate, View};
//! use toolgate::logic::types::execution::ToolCall;
//! use toolgate::logic::{Component, Options};
//! use toolgate::registry::{self, Registry};
//! use toolgate::transport::Connect;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let component = Component::embedded(&Options::default())?;
//! let config = toolgate::config::parse("servers: {demo: {command: toolgate, args: [demo-server]}}", Path::new("toolgate.yaml"))?;
//! // Here the demo server runs within this process; without this line the command above would be run.
//! let transports = HashMap::from([("demo".to_owned(), Arc::new(toolgate::demo::Local) as Arc<dyn Connect>)]);
//! let registry = Registry::new(&component, config, registry::Options { transports, ..Default::default() })?;
//!
//! let gate = Gate::open(&registry, View::default())?;
//! gate.refresh().await;
//! assert!(gate.tools(&gate.style())?.iter().any(|tool| tool.name == "demo__add"));
//!
//! let call = ToolCall { id: "1".into(), name: "demo.add".into(), arguments: "a: 1, b: 2".into() };
//! let called = gate.call(call, &CallOptions::default()).await?;
//! assert_eq!(called.result.text, "3");
//!
//! gate.close(Closing::Cancel).await;
//! registry.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! For a host of components of one's own, [`add_to_linker`] gives these the tools of a gate, or the transports below it.
//!
//! # Features
//!
//! All but the last are on by default; without them, nothing that only they need is compiled.
//!
//! - `cli`: the binary `toolgate`, with `gateway`.
//! - `gateway`: one MCP server in front of all, on standard input and output, HTTP and a socket.
//! - `oauth`: authorizations for servers on the network.
//! - `otel`: spans of calls for an OpenTelemetry collector.

#![cfg_attr(not(feature = "gateway"), allow(dead_code, unused_imports, reason = "only the gateway uses them"))]

pub mod access;
pub mod calendar;
pub mod condense;
pub mod config;
pub mod decide;
pub mod demo;
pub mod eval;
pub mod extension;
pub mod failure;
pub mod gate;
#[cfg(feature = "gateway")]
pub mod gateway;
pub mod json;
pub mod logic;
#[cfg(feature = "oauth")]
pub mod oauth;
pub mod ownership;
pub mod plan;
pub mod private_files;
pub mod queue;
pub mod record;
pub mod registry;
pub mod rpc;
pub mod session;
pub mod shadow;
pub mod spill;
mod spin_wait;
pub mod stats;
pub mod telemetry;
pub mod transport;
pub mod visible;
pub mod wit;
pub mod words;

pub use extension::{ToolgateCtx, ToolgateView, add_to_linker};
