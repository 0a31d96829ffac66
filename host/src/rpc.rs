//! JSON-RPC 2.0 as MCP uses it. A message is read once, where it arrives, into a [`Message`] whose parts are ranges of its text.
//! Requests, results, errors, their codes and the headers beside them are written here and nowhere else.

pub mod code;
pub(crate) mod header;
mod message;
mod params;
mod write;

pub(crate) use message::TOO_DEEP;
pub use message::{Batch, Message, Notification, Reply, Request, Response, ResponseId, UnreadableMessage};
pub use write::{call_params, error, notification, quote, request, result};
