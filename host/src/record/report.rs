//! The report of a backtest: how many calls ended the same, which ones differ, and how.

use std::collections::BTreeMap;

use super::candidate::UnusableServer;
use super::difference::{Difference, DifferenceKind};
use super::directive::RecordedDirective;
use super::line::{LineDamage, Record};
use super::reader::LinePosition;
use crate::visible::cut;

/// The report of a backtest.
#[derive(Debug, Default)]
pub struct BacktestReport {
    /// The number of calls that were replayed.
    pub records: u64,
    /// The number of replayed calls that ended the same.
    pub same: u64,
    /// The number of calls that the filter excluded.
    pub skipped: u64,
    /// The number of calls that depend on masked values, so they cannot be replayed, and that the candidate does not
    /// deny.
    pub unreplayable: u64,
    /// The number of unreplayable calls that the candidate might newly allow or deny.
    pub rules_unjudged: u64,
    /// The candidate's servers that cannot be used; calls to them count as calls to unknown servers.
    pub unusable: Vec<UnusableServer>,
    /// The number of calls with masked answers for which the candidate masks less, so its output is unknown.
    pub unjudged: u64,
    /// The calls that crashed the component, by reason.
    pub crashed: BTreeMap<&'static str, DifferenceGroup>,
    /// Whether the run stopped early because the component crashed too often.
    pub stopped: bool,
    /// The number of lines that were not completely written.
    pub unfinished: u64,
    /// The first of these lines.
    pub first_unfinished: Option<LinePosition>,
    /// The first damaged lines, and what is wrong with each.
    pub damaged: BTreeMap<LinePosition, LineDamage>,
    /// The number of damaged lines.
    pub damages: u64,
    /// The parts that are missing, and the number of calls that need each.
    pub missing: BTreeMap<String, u64>,
    /// The number of calls that should have ended the same and did not.
    pub mismatches: u64,
    /// The first call that should have ended the same and did not.
    pub first: Option<ReplayMismatch>,
    /// The calls that are decided differently, by kind, tool and principal.
    pub groups: BTreeMap<(DifferenceKind, String, String), DifferenceGroup>,
    /// The times of the first and the last call.
    pub span: Option<(String, String)>,
}

/// A call that should have ended the same and did not.
#[derive(Debug)]
pub struct ReplayMismatch {
    /// The position of its record.
    pub spot: LinePosition,
    /// The id of the call.
    pub id: String,
    /// The index of the first directive that differs.
    pub step: usize,
    /// The recorded directive.
    pub was: Option<RecordedDirective>,
    /// The directive that the replay gave.
    pub now: Option<RecordedDirective>,
}

/// Calls that are decided differently in the same way.
#[derive(Debug, Default)]
pub struct DifferenceGroup {
    /// The number of calls.
    pub count: u64,
    /// The first few calls.
    pub examples: BTreeMap<LinePosition, CallExample>,
}

/// One call of a group, as an example.
#[derive(Debug, Clone)]
pub struct CallExample {
    /// The id of the call.
    pub id: String,
    /// The time of the call.
    pub at: String,
    /// The recorded decision.
    pub was: String,
    /// The decision now.
    pub now: String,
}

impl DifferenceGroup {
    pub(super) fn add(&mut self, spot: &LinePosition, example: CallExample) {
        self.count += 1;
        self.examples.insert(spot.clone(), example);
        few(&mut self.examples, EXAMPLES);
    }

    fn merge(&mut self, other: DifferenceGroup) {
        self.count += other.count;
        self.examples.extend(other.examples);
        few(&mut self.examples, EXAMPLES);
    }
}

impl BacktestReport {
    /// Counts a call that was replayed.
    pub(super) fn count(&mut self, record: &Record) {
        self.records += 1;
        let at = &record.at;
        match &mut self.span {
            None => self.span = Some((at.clone(), at.clone())),
            Some((first, _)) if at < first => first.clone_from(at),
            Some((_, last)) if at > last => last.clone_from(at),
            Some(_) => {}
        }
    }

    pub(super) fn add_unfinished(&mut self, spot: LinePosition) {
        self.unfinished += 1;
        self.first_unfinished = self.first_unfinished.take().into_iter().chain([spot]).min();
    }

    pub(super) fn add_damage(&mut self, spot: LinePosition, damage: LineDamage) {
        self.damages += 1;
        self.damaged.insert(spot, damage);
        few(&mut self.damaged, MOST_SHOWN);
    }

    pub(super) fn add_mismatch(&mut self, spot: &LinePosition, record: Record, now: Vec<RecordedDirective>) {
        self.mismatches += 1;
        if self.first.as_ref().is_some_and(|first| first.spot < *spot) {
            return;
        }
        let mut was = record.steps.into_iter().map(|step| step.directive);
        let mut now = now.into_iter();
        for step in 0.. {
            let (was, now) = (was.next(), now.next());
            if was != now || was.is_none() {
                self.first = Some(ReplayMismatch { spot: spot.clone(), id: record.id, step, was, now });
                return;
            }
        }
    }

    /// Counts a call of this tool for each way in which it differs.
    pub(super) fn add_differences(
        &mut self,
        spot: &LinePosition,
        record: &Record,
        tool: &str,
        differences: Vec<Difference>,
    ) {
        let principal = record.principal.clone().unwrap_or_default();
        for Difference { kind, was, now, .. } in differences {
            let mut key = (kind, tool.to_owned(), principal.clone());
            // Names come from clients and servers, so the number of groups must be bounded.
            if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
                key.1 = "other tools".to_owned();
            }
            let example = CallExample {
                id: record.id.clone(),
                at: record.at.clone(),
                was: cut(&was, MOST_TEXT),
                now: cut(&now, MOST_TEXT),
            };
            self.groups.entry(key).or_default().add(spot, example);
        }
    }

    /// Adds the report of another thread.
    pub(super) fn merge(&mut self, other: BacktestReport) {
        self.records += other.records;
        self.same += other.same;
        self.skipped += other.skipped;
        self.unreplayable += other.unreplayable;
        self.rules_unjudged += other.rules_unjudged;
        self.unfinished += other.unfinished;
        self.first_unfinished = self.first_unfinished.take().into_iter().chain(other.first_unfinished).min();
        self.unjudged += other.unjudged;
        self.damages += other.damages;
        self.damaged.extend(other.damaged);
        few(&mut self.damaged, MOST_SHOWN);
        other.missing.into_iter().for_each(|(what, count)| *self.missing.entry(what).or_default() += count);
        self.mismatches += other.mismatches;
        self.first = match (self.first.take(), other.first) {
            (Some(one), Some(two)) => Some(if one.spot < two.spot { one } else { two }),
            (one, two) => one.or(two),
        };
        for (key, group) in other.groups {
            self.groups.entry(key).or_default().merge(group);
        }
        for (why, group) in other.crashed {
            self.crashed.entry(why).or_default().merge(group);
        }
        self.span = match (self.span.take(), other.span) {
            (Some(one), Some(two)) => Some((one.0.min(two.0), one.1.max(two.1))),
            (one, two) => one.or(two),
        };
    }

    /// Returns how many calls differ in this way.
    pub fn of_kind(&self, kind: DifferenceKind) -> u64 {
        self.groups.iter().filter(|((found, ..), _)| *found == kind).map(|(_, group)| group.count).sum()
    }

    /// Returns how many calls could be compared with their records.
    pub fn compared(&self) -> u64 {
        self.records - self.unreplayable - self.missing.values().sum::<u64>() - self.crashes()
    }

    /// Reports whether some calls may differ in this way, but cannot be judged.
    pub fn is_unjudged(&self, kind: DifferenceKind) -> bool {
        let hidden = match kind {
            DifferenceKind::Denied | DifferenceKind::Allowed => self.rules_unjudged,
            _ => self.unreplayable,
        };
        hidden > 0 || (kind == DifferenceKind::Masking && self.unjudged > 0)
    }

    /// Returns how many calls crashed the component.
    pub fn crashes(&self) -> u64 {
        self.crashed.values().map(|group| group.count).sum()
    }

    /// Reports whether every record was complete and undamaged, and ended the same wherever it had to.
    pub fn is_sound(&self) -> bool {
        self.mismatches == 0 && self.damages == 0 && self.missing.is_empty() && self.crashed.is_empty()
    }
}

/// Keeps the first `most` entries.
fn few<T>(all: &mut BTreeMap<LinePosition, T>, most: usize) {
    while all.len() > most {
        all.pop_last();
    }
}

const EXAMPLES: usize = 3;
const MOST_SHOWN: usize = 20;
const MOST_GROUPS: usize = 2000;
/// The number of characters of a text that a report shows.
const MOST_TEXT: usize = 300;
