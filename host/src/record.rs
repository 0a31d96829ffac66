//! Calls on record: all that each was decided on and what was decided, so that it can be replayed, explained and tried on
//! other rules.
//!
//! A decision is a pure function of the component, the settings of the gate, what servers had offered, the call and its
//! events. All of these are in a record, or by digest beside it.

mod backtest;
mod builder;
mod candidate;
pub mod compare;
mod digest_cache;
pub mod directive;
pub mod event;
pub mod folder;
mod latest_offers;
pub mod line;
mod line_json;
mod reader;
mod recorded_settings;
mod recorder;
pub mod replay;
mod report;
mod steps;
mod store;
mod text;
mod tool_resolver;
mod writer;

pub use backtest::{Backtest, BacktestError, RecordFilter, find};
pub use candidate::{Candidate, UnusableServer};
pub(crate) use candidate::{CandidateSettings, SettingsQuery, unknown_principal};
pub(crate) use digest_cache::DigestCache;
pub(crate) use latest_offers::{LatestOffers, replay_with_offers};
pub use reader::{LinePosition, LineState, RecordLines, SharedPartError, SharedParts};
#[cfg(test)]
pub(crate) use recorder::tests::finished;
pub use recorder::{RecordStats, Recorder};
pub use report::{BacktestReport, CallExample, DifferenceGroup, ReplayMismatch};
pub(crate) use steps::steps;
pub use text::{JsonText, sha256};
pub use writer::RecordOptions;
