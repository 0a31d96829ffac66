//! The decisions of toolgate, in plain Rust: no clock, no socket, no file, no random number.
//!
//! Each module is one interface of `wit/`. Built for `wasm32-wasip2`, the crate is the component of world `logic` or,
//! with the feature `client`, of world `client`. Built natively, it is the same code without a sandbox, for tests,
//! fuzzing and benches. Without the feature `component` it exports nothing, so that another crate can build a component
//! with its own [`decider`] on top of it.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod arguments;
pub mod backoff;
mod broad;
pub mod catalog;
pub mod cel;
pub mod client;
pub mod content;
pub mod decider;
pub mod execution;
pub mod filtering;
pub mod json;
pub mod lifecycle;
pub mod masking;
pub mod naming;
mod ordered;
pub mod reading;
pub mod recovery;
pub mod rules;
pub mod schema;
pub mod search;
pub mod types;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod export;

/// Exports the calling crate as a component of world `logic` with this decider; natively, it does nothing.
#[macro_export]
macro_rules! export {
    ($brain:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::export::Component<$brain>;
            $crate::export::bindings::export! { Exported with_types_in $crate::export::bindings }
        };
    };
}
