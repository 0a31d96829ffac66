//! Runs the component in wasmtime. Only this module and `extension`, which serves other people's components, use
//! wasmtime.
//!
//! A [`Component`] is loaded once, an [`Instance`] of it is created in microseconds, and each call of an instance is
//! one function of the WIT. A call never blocks, and never exceeds its [`InstanceLimits`].

pub(crate) mod bindings;
pub(crate) mod cache;
mod calls;
mod component;
mod contract;
mod engine;
mod error;
mod instance;
mod options;
mod pool;
mod state;
mod supervisor;
#[cfg(test)]
mod tests;
pub mod types;
mod wasi;

pub use calls::{CatalogHandle, ExecutionHandle, GateHandle, MaskerHandle};
pub use component::{Component, EMBEDDED, EMBEDDED_DIGEST, precompile};
pub use error::{BadComponent, LogicError};
pub use instance::Instance;
pub use options::{Allocation, Cache, ComponentOptions, InstanceLimits};
pub(crate) use pool::{CallTicket, GateOffers, InstancePool, LONG, PoolSet};
pub use supervisor::{AllowedServers, CallHistory, OfferedTools, Supervisor, traps};
pub(crate) use supervisor::{directive_bytes, event_bytes};
