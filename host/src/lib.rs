//! One gate between an AI agent and the tools of many MCP servers.
//!
//! Every decision is made by a pure WebAssembly component (world `logic` of `wit/`); this crate runs it, and carries
//! out what it decides. Here is the component at work:
//!
//! ```
//! use toolgate::decide::Decide;
//! use toolgate::logic::{Component, Options, Supervisor};
//!
//! let mut logic = Supervisor::new(Component::embedded(&Options::default())?)?;
//! assert_eq!(logic.normalize("kubernetes-server__get_pods")?, "kubernetes-server.get_pods");
//! # Ok::<(), toolgate::logic::LogicError>(())
//! ```

pub mod config;
pub mod decide;
pub mod demo;
pub mod eval;
pub mod failure;
pub mod gate;
pub mod json;
pub mod logic;
pub mod plan;
pub mod private;
pub mod registry;
pub mod session;
pub mod transport;
pub mod wit;
pub mod words;
