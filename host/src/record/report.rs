//! What a replay came to: how many calls came out the same, which did not, and in which way.

use std::collections::BTreeMap;

use super::candidate::UnusableServer;
use super::compare::{Difference, DifferenceKind};
use super::directive::RecordedDirective;
use super::line::{LineDamage, Record};
use super::reader::LinePosition;

/// What a replay came to.
#[derive(Debug, Default)]
pub struct BacktestReport {
    /// Calls that were replayed.
    pub records: u64,
    /// Those of them that came out the same.
    pub same: u64,
    /// Calls that nobody asked for.
    pub skipped: u64,
    /// Calls that cannot be replayed, since what is hidden in them decided, and that a candidate does not keep out.
    pub unreplayable: u64,
    /// Those of them of which it is not known whether a candidate lets them through.
    pub rules_unjudged: u64,
    /// Servers of the candidate that count as gone.
    pub unusable: Vec<UnusableServer>,
    /// Calls whose answers are stored masked, and the candidate masks less: what it would show is not known.
    pub unjudged: u64,
    /// Calls at which the component broke off, by why.
    pub crashed: BTreeMap<&'static str, DifferenceGroup>,
    /// It broke off so often that the rest was not tried.
    pub stopped: bool,
    /// Lines that were never written to their end.
    pub unfinished: u64,
    /// Lines in which something is wrong, and how many there are in all.
    pub damaged: BTreeMap<LinePosition, LineDamage>,
    /// How many lines are damaged in all.
    pub damages: u64,
    /// What was needed and could not be had, and for how many calls.
    pub missing: BTreeMap<String, u64>,
    /// Calls that were to come out the same and did not.
    pub mismatches: u64,
    /// The first of them.
    pub first: Option<ReplayMismatch>,
    /// Calls that are decided otherwise, by how, by tool and by principal.
    pub groups: BTreeMap<(DifferenceKind, String, String), DifferenceGroup>,
    /// When the first and the last of the calls were made.
    pub span: Option<(String, String)>,
}

/// A call that was to come out the same and did not.
#[derive(Debug)]
pub struct ReplayMismatch {
    /// Where its record stands.
    pub spot: LinePosition,
    /// The id of the call.
    pub id: String,
    /// Which directive it was, from 0.
    pub step: usize,
    /// What was said then.
    pub was: Option<RecordedDirective>,
    /// What is said now.
    pub now: Option<RecordedDirective>,
}

/// Calls that are decided otherwise in the same way.
#[derive(Debug, Default)]
pub struct DifferenceGroup {
    /// How many.
    pub count: u64,
    /// The first few.
    pub examples: BTreeMap<LinePosition, CallExample>,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct CallExample {
    /// The id of the call.
    pub id: String,
    /// When it was made.
    pub at: String,
    /// What was decided then.
    pub was: String,
    /// What is decided now.
    pub now: String,
}

impl DifferenceGroup {
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
        let mut was = record.steps.into_iter().map(|step| step.say);
        let mut now = now.into_iter();
        for step in 0.. {
            let (was, now) = (was.next(), now.next());
            if was != now || was.is_none() {
                self.first = Some(ReplayMismatch { spot: spot.clone(), id: record.id, step, was, now });
                return;
            }
        }
    }

    pub(super) fn add_crash(&mut self, spot: &LinePosition, example: CallExample, why: &'static str) {
        let group = self.crashed.entry(why).or_default();
        group.count += 1;
        group.examples.insert(spot.clone(), example);
        few(&mut group.examples, EXAMPLES);
    }

    /// Counts a call of this tool that differs in these ways.
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
            // Names come from clients and servers, so there is a limit to how many are told apart.
            if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
                key.1 = "other tools".to_owned();
            }
            let example = CallExample { id: record.id.clone(), at: record.at.clone(), was: cut(was), now: cut(now) };
            let group = self.groups.entry(key).or_default();
            group.count += 1;
            group.examples.insert(spot.clone(), example);
            few(&mut group.examples, EXAMPLES);
        }
    }

    /// Adds what another thread has found.
    pub(super) fn merge(&mut self, other: BacktestReport) {
        self.records += other.records;
        self.same += other.same;
        self.skipped += other.skipped;
        self.unreplayable += other.unreplayable;
        self.rules_unjudged += other.rules_unjudged;
        self.unfinished += other.unfinished;
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

    /// How many calls differ in this way.
    pub fn of_kind(&self, kind: DifferenceKind) -> u64 {
        self.groups.iter().filter(|((found, ..), _)| *found == kind).map(|(_, group)| group.count).sum()
    }

    /// How many calls could be compared with what was recorded of them.
    pub fn compared(&self) -> u64 {
        self.records - self.unreplayable - self.missing.values().sum::<u64>() - self.crashes()
    }

    /// Whether there are calls of which nobody knows whether they differ in this way.
    pub fn is_unjudged(&self, kind: DifferenceKind) -> bool {
        let hidden = match kind {
            DifferenceKind::Denied | DifferenceKind::Allowed => self.rules_unjudged,
            _ => self.unreplayable,
        };
        hidden > 0 || (kind == DifferenceKind::Masking && self.unjudged > 0)
    }

    /// At how many calls the component broke off.
    pub fn crashes(&self) -> u64 {
        self.crashed.values().map(|group| group.count).sum()
    }

    /// Whether every record was there, whole, was decided, and came out the same wherever it had to.
    pub fn is_sound(&self) -> bool {
        self.mismatches == 0 && self.damages == 0 && self.missing.is_empty() && self.crashed.is_empty()
    }
}

/// Keeps the first so many.
fn few<T>(all: &mut BTreeMap<LinePosition, T>, most: usize) {
    while all.len() > most {
        all.pop_last();
    }
}

/// As much of a text as a report has room for.
fn cut(text: String) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

const EXAMPLES: usize = 3;
const MOST_SHOWN: usize = 20;
const MOST_GROUPS: usize = 2000;
const MOST_TEXT: usize = 300;
