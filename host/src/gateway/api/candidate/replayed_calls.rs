//! Tries a candidate on the newest recorded calls that a filter selects.

use std::time::Instant;

use serde_json::{Value, json};

use super::super::super::recorded::{DISORDER, RecordedCall};
use super::CandidateTrial;
use crate::failure::format_chain;
use crate::logic::ComponentOptions;
use crate::record::difference::DifferenceKind;
use crate::record::{
    Backtest, BacktestReport, Candidate, DifferenceGroup, NewestRecords, ReadBudget, ReadProblem, RecordFilter,
};

impl CandidateTrial {
    /// Replays the calls, or says why that cannot be done.
    pub(super) fn replay(&self, candidate: &Candidate, until: Instant) -> Result<Value, String> {
        let dirs = self.records.as_ref().ok_or(NO_RECORDS)?.existing();
        let mut newest = NewestRecords::of(&dirs, None, ReadBudget { bytes: MOST_READ, until });
        let mut records = Vec::new();
        while records.len() < MOST_CALLS
            && let Some((folder, record)) = newest.next()
        {
            let call = RecordedCall::new(folder, record.clone()).call;
            if self.filter.since.is_some_and(|since| call.at + DISORDER < since) {
                break;
            }
            if self.filter.matches(&call) {
                records.push((folder, record));
            }
        }
        let is_cut = records.len() == MOST_CALLS;
        let problems: Vec<_> = newest.into_problems().into_iter().map(|ReadProblem { text, .. }| text).collect();
        // What an agent has seen depends on the order of its calls.
        records.reverse();
        let chosen = records.len();
        let backtest = Backtest {
            dirs,
            candidate: candidate.clone(),
            filter: RecordFilter::default(),
            options: ComponentOptions::default(),
            threads: 1,
        };
        let report = backtest.run_on(records, until).map_err(|why| format_chain(&why))?;
        Ok(describe(&report, chosen, is_cut, &problems))
    }
}

fn describe(report: &BacktestReport, chosen: usize, is_cut: bool, problems: &[String]) -> Value {
    let counted = report.groups.iter().filter(|((kind, ..), _)| *kind != DifferenceKind::Trace);
    let groups = counted.map(|((kind, tool, principal), DifferenceGroup { count, examples })| {
        // The others may quote arguments and answers.
        let is_plain = matches!(kind, DifferenceKind::Denied | DifferenceKind::Allowed | DifferenceKind::Approval);
        let examples = examples.values().map(|one| match is_plain {
            true => json!({"id": one.id, "at": one.at, "was": one.was, "now": one.now}),
            false => json!({"id": one.id, "at": one.at}),
        });
        json!({
            "change": kind.name(), "title": kind.title(), "tool": tool,
            "principal": (!principal.is_empty()).then_some(principal),
            "calls": count, "examples": examples.collect::<Vec<_>>(),
        })
    });
    let missing: u64 = report.missing.values().sum();
    json!({
        "calls": chosen,
        // Whether there are older ones, which were not tried.
        "cut": is_cut,
        "since": report.span.as_ref().map(|(first, _)| first),
        "until": report.span.as_ref().map(|(_, last)| last),
        "compared": report.compared(),
        "same": report.same,
        "not_compared": (chosen as u64).saturating_sub(report.compared()),
        "unreplayable": report.unreplayable,
        "missing": missing,
        "broken": report.crashes(),
        "groups": groups.take(MOST_GROUPS).collect::<Vec<_>>(),
        "problems": problems,
    })
}

/// Why no calls are tried.
const NO_RECORDS: &str = "this gateway has no records, and the calls that it remembers have no arguments, so they cannot \
                          be decided again: set `record: true`, or start it with --record DIR";
/// The number of calls that are tried.
const MOST_CALLS: usize = 1000;
const MOST_GROUPS: usize = 200;
/// How much is read to find them.
const MOST_READ: u64 = 32 << 20;
