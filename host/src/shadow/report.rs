//! The report on a candidate: how many calls it judged, and where it differs.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use tracing::info;

use crate::finished_call::FinishedCall;
use crate::gate_settings::LOCAL;
use crate::hour::Hour;
use crate::lock::lock;
use crate::record::difference::{Difference, DifferenceKind};
use crate::visible::cut;

/// A call that the candidate would have decided differently, without its arguments and answers.
#[derive(Debug, Clone)]
pub struct Divergence {
    /// The id of the call, as in the log.
    pub call: String,
    /// The time when the difference was found.
    pub at: SystemTime,
    /// The principal that made the call.
    pub principal: String,
    /// The name that was called.
    pub name: String,
    /// The kind of the difference.
    pub kind: DifferenceKind,
    /// The rule that decided, or what differs.
    pub rule: String,
}

/// A call that is being judged.
pub(super) struct JudgedCall {
    pub id: String,
    principal: String,
    name: String,
}

impl JudgedCall {
    pub(super) fn of(finished: &FinishedCall) -> Self {
        let call = &finished.history.call;
        let principal = finished.principal.as_ref().map_or_else(|| LOCAL.to_owned(), |name| name.to_string());
        JudgedCall { id: call.id.clone(), principal, name: brief(&call.name) }
    }
}

/// Whether the candidate judges calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShadowState {
    /// The candidate judges calls.
    Running,
    /// The candidate is switched off, for this reason.
    Off(String),
}

/// The numbers of calls by what the candidate said to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// The candidate decides the same.
    pub same: u64,
    /// The candidate decides differently.
    pub different: u64,
    /// The candidate was not asked, because its queue was full.
    pub dropped: u64,
    /// The candidate crashed.
    pub failed: u64,
}

/// The report on a candidate.
#[derive(Debug)]
pub struct ShadowReport {
    /// A short description of the candidate.
    pub about: String,
    state: Mutex<ReportState>,
}

#[derive(Debug, Default)]
struct ReportState {
    off: Option<String>,
    counts: ShadowCounts,
    kinds: [u64; DifferenceKind::ALL.len()],
    recent: VecDeque<Divergence>,
    hour: JudgedHour,
    log: LogLimit,
}

/// How many calls were judged in each minute of the last hour, and how many of them differ.
#[derive(Debug)]
struct JudgedHour(Hour<(u32, u32)>);

impl Default for JudgedHour {
    fn default() -> Self {
        JudgedHour(Hour::new(MINUTE))
    }
}

/// How a candidate judged the calls of the last hour, in slots, oldest first; the last slot is not over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowHour {
    /// How long a slot is.
    pub slot: Duration,
    /// When the last slot ends.
    pub ends: SystemTime,
    /// The number of calls that were judged.
    pub judged: Vec<u32>,
    /// The number of calls that the candidate would have decided differently.
    pub different: Vec<u32>,
}

/// The second in which log lines are counted; `lines` counts those written in it, `left_out` those suppressed.
#[derive(Debug, Default)]
struct LogLimit {
    second: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl ShadowReport {
    /// Creates an empty report.
    pub(super) fn of(about: String) -> Self {
        ShadowReport { about, state: Mutex::default() }
    }

    /// Returns whether the candidate judges calls.
    pub fn state(&self) -> ShadowState {
        lock(&self.state).off.clone().map_or(ShadowState::Running, ShadowState::Off)
    }

    /// Returns the numbers of calls so far.
    pub fn counts(&self) -> ShadowCounts {
        lock(&self.state).counts
    }

    /// Returns how many calls differ in each kind.
    pub fn kinds(&self) -> impl Iterator<Item = (DifferenceKind, u64)> {
        let kinds = DifferenceKind::ALL.into_iter().map(|(kind, ..)| kind).zip(lock(&self.state).kinds);
        // A difference in the reasons alone does not count.
        kinds.filter(|(kind, _)| *kind != DifferenceKind::Trace)
    }

    /// Returns the latest matching differences, newest first, up to `most`.
    pub fn last(&self, most: usize, wanted: impl Fn(&Divergence) -> bool) -> Vec<Divergence> {
        lock(&self.state).recent.iter().rev().filter(|divergence| wanted(divergence)).take(most).cloned().collect()
    }

    /// Returns how the calls of the last hour were judged.
    pub fn hour(&self, now: SystemTime) -> ShadowHour {
        let state = lock(&self.state);
        let JudgedHour(hour) = &state.hour;
        let (mut judged, mut different) = (vec![0; hour.len()], vec![0; hour.len()]);
        for (place, slot) in hour.used(now) {
            (judged[place], different[place]) = *slot;
        }
        ShadowHour { slot: hour.length(), ends: hour.ends(now), judged, different }
    }

    pub(super) fn is_running(&self) -> bool {
        lock(&self.state).off.is_none()
    }

    pub(super) fn switch_off(&self, why: &str) {
        lock(&self.state).off = Some(why.to_owned());
    }

    /// Counts a call.
    pub(super) fn count(&self, add: impl FnOnce(&mut ShadowCounts)) {
        add(&mut lock(&self.state).counts);
    }

    /// Counts a call that the candidate decides as it was decided.
    pub(super) fn add_agreement(&self) {
        let mut state = lock(&self.state);
        state.counts.same += 1;
        state.hour.0.slot(SystemTime::now()).0 += 1;
    }

    /// Stores, counts and logs a difference.
    pub(super) fn add_divergence(&self, called: JudgedCall, difference: &Difference) {
        // The two sides may quote arguments and answers, so they are dropped here.
        let Difference { kind, rule, .. } = difference;
        let kind = *kind;
        let divergence = Divergence {
            call: called.id,
            at: SystemTime::now(),
            principal: called.principal,
            name: called.name,
            kind,
            rule: brief(rule),
        };
        let unwritten = {
            let mut state = lock(&self.state);
            state.counts.different += 1;
            let (judged, different) = state.hour.0.slot(divergence.at);
            (*judged, *different) = (*judged + 1, *different + 1);
            state.kinds[kind as usize] += 1;
            if state.recent.len() == KEPT {
                state.recent.pop_front();
            }
            state.recent.push_back(divergence.clone());
            state.log.may_write(Instant::now()).then(|| std::mem::take(&mut state.log.left_out))
        };
        let Some(unwritten) = unwritten else { return };
        let Divergence { call, principal, name, rule, .. } = divergence;
        let more = if unwritten > 0 { format!(" ({unwritten} more not logged)") } else { String::new() };
        info!(call, principal, kind = kind.name(), "the shadow policy would decide {name:?} differently: {rule}{more}");
    }
}

impl LogLimit {
    /// Reports whether another line may be logged this second; a policy that differs everywhere must not flood the log.
    fn may_write(&mut self, now: Instant) -> bool {
        if self.second.is_none_or(|second| now.duration_since(second) >= SECOND) {
            (self.second, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        let may = self.lines <= LINES;
        self.left_out += u64::from(!may);
        may
    }
}

/// Cuts a text from the candidate, which may have any length, to one short line.
fn brief(text: &str) -> String {
    cut(text.split('\n').next().unwrap_or_default(), MOST_LETTERS)
}

const KEPT: usize = 200;
/// The length of a slot, in seconds.
const MINUTE: u64 = 60;
const LINES: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);
const MOST_LETTERS: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_room_for_some_lines_and_the_rest_is_counted() {
        let mut log = LogLimit::default();
        let now = Instant::now();
        let written = (0..100).filter(|_| log.may_write(now)).count();
        assert_eq!((written, log.left_out), (20, 80));
        assert!(log.may_write(now + SECOND));
    }

    #[test]
    fn the_last_hour_has_what_was_judged_in_each_minute() {
        let report = ShadowReport::of("a candidate".to_owned());
        let called = JudgedCall { id: String::new(), principal: String::new(), name: String::new() };
        let kind = DifferenceKind::Denied;
        let difference = Difference { kind, rule: String::new(), was: String::new(), now: String::new() };
        (0..3).for_each(|_| report.add_agreement());
        report.add_divergence(called, &difference);
        let now = SystemTime::now();
        let sums = |now| {
            let ShadowHour { judged, different, .. } = report.hour(now);
            assert_eq!((judged.len(), different.len()), (60, 60));
            (judged.iter().sum::<u32>(), different.iter().sum::<u32>())
        };
        assert_eq!(sums(now), (4, 1));
        assert_eq!(sums(now + Duration::from_secs(50 * 60)), (4, 1));
        assert_eq!(sums(now + Duration::from_secs(70 * 60)), (0, 0));
    }

    #[test]
    fn what_a_candidate_says_is_one_short_line() {
        assert_eq!(brief("a\nb"), "a");
        assert_eq!(brief(&"x".repeat(1000)).chars().count(), MOST_LETTERS + 1);
    }
}
