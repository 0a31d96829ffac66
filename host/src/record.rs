//! Calls on record: all that each was decided on and what was decided, so that it can be replayed, explained and tried on
//! other rules.
//!
//! A decision is a pure function of the component, the settings of the gate, what servers had offered, the call and its
//! events. All of these are in a record, or by digest beside it.

mod backtest;
mod candidate;
pub mod compare;
pub mod folder;
mod keys;
mod lend;
pub mod line;
mod meant;
pub mod play;
mod reader;
mod recorder;
mod report;
pub mod said;
mod scribe;
mod shapes;
mod steps;
mod store;
mod text;
pub mod told;
mod writer;
mod written;

pub use backtest::{Backtest, BacktestError, Wanted, find};
pub use candidate::{Candidate, Unusable};
pub(crate) use candidate::{Tried, Whose, nobody};
pub(crate) use keys::Keys;
pub(crate) use lend::{Offered, play as play_lending};
pub use reader::{Found, Lines, PartError, Parts, Spot};
#[cfg(test)]
pub(crate) use recorder::tests::finished;
pub use recorder::{RecordStats, Recorder};
pub use report::{Example, Group, Mismatch, Report};
pub(crate) use steps::steps;
pub use text::{Text, sha256};
pub use writer::Rules;
