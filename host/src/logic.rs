//! The component that decides, run by wasmtime. Only this module and `extension`, which serves the components of others,
//! know wasmtime.
//!
//! A [`Component`] is loaded once, an [`Instance`] is made of it in microseconds, and each of its calls is one function
//! of the WIT. A call never blocks, and never runs longer or larger than its [`Limits`].

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

pub use calls::{CatalogHandle, ExecutionHandle, GateHandle, MaskerHandle, Outlook};
pub use component::{Component, EMBEDDED, EMBEDDED_DIGEST};
pub use error::{BadComponent, LogicError};
pub use instance::Instance;
pub use options::{Allocation, Cache, ComponentOptions, InstanceLimits};
pub(crate) use pool::{CallTicket, GateOffers, InstancePool, LONG, PoolSet};
pub use supervisor::{AllowedServers, CallHistory, OfferedTools, Supervisor, traps};
pub(crate) use supervisor::{directive_bytes, event_bytes};
