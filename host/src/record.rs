//! Records each call with everything it was decided on, so that you can replay it, explain it and try it on other
//! rules.
//!
//! A decision is a pure function of the component, the gate's settings, the offered tools, the call and its events. A
//! record holds all of these; large parts are stored once beside the records, under their digests.

mod backtest;
mod builder;
mod candidate;
pub mod compare;
pub mod difference;
mod digest;
mod digest_cache;
pub mod directive;
mod find;
pub mod folder;
mod folder_parts;
mod follow;
mod keyed;
mod latest_offers;
pub mod line;
mod merge;
mod newest;
mod reader;
mod recorder;
pub mod replay;
mod report;
mod steps;
mod store;
mod surroundings;
mod tool_resolver;
mod writer;

pub use backtest::{Backtest, BacktestError, RecordFilter};
pub use candidate::{Candidate, UnusableServer};
pub(crate) use candidate::{CandidateSettings, unknown_principal};
pub use digest::short;
pub(crate) use digest_cache::DigestCache;
pub use find::{FoundRecord, FoundRecords, LongerId, find};
pub(crate) use follow::RecordFollower;
pub(crate) use latest_offers::{LatestOffers, replay_with_offers};
pub(crate) use newest::{NewestRecords, ReadBudget, ReadProblem};
pub use reader::{LinePosition, LineState, RecordLines, SharedPartError, SharedParts};
#[cfg(test)]
pub(crate) use recorder::tests::finished;
pub use recorder::{RecordStats, Recorder};
pub use report::{BacktestReport, CallExample, DifferenceGroup, ReplayMismatch};
pub(crate) use steps::steps;
pub use steps::{ForwardedAnswer, RecordedStep};
pub(crate) use surroundings::ReplayedAgents;
pub use surroundings::{CallSurroundings, CountCalls};
pub use writer::RecordOptions;
