//! The JSON of the contract's types, for `eval` and for records.
//!
//! Each type has one form. A struct or enum that ends in `Json` describes the JSON of the contract's type of that name;
//! serde checks that both have the same fields and cases.

mod call;
mod failure;
pub(crate) mod json_text;
mod macros;
mod ordered_map;
mod read_call;
mod rules;
mod settings;

pub(crate) use failure::FailureJson;
pub(crate) use macros::{read_single_member, word_or_object};
pub(crate) use ordered_map::OrderedMap;
pub(crate) use read_call::ReadCallJson;
pub(crate) use rules::KnownDigest;
pub(crate) use settings::ToolJson;
