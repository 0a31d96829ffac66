//! How the calls of the last hour went, in slots of time: for all servers together, and for each.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use crate::gate;
use crate::hour::Hour;
use crate::lock::lock;
use crate::logic::types::execution::Code;
use crate::stats::StatsOutcome;

/// The calls of the last hour; it takes up to 2 MB.
#[derive(Debug, Default)]
pub(super) struct CallHistory(Mutex<Tracks>);

#[derive(Debug)]
struct Tracks {
    all: Track,
    servers: HashMap<String, Track>,
}

/// What happened in the last hour, slot by slot, oldest first; the last slot is not over yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrackReport {
    /// How long a slot is.
    pub slot: Duration,
    /// When the last slot ends.
    pub ends: SystemTime,
    /// The slots.
    pub slots: Vec<SlotReport>,
    /// All slots together.
    pub sum: SlotReport,
}

/// How the calls of a time span went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SlotReport {
    /// The calls that ended.
    pub calls: u32,
    /// The calls that failed, also if the tool may have run.
    pub failures: u32,
    /// The calls that a tool answered with an error of its own.
    pub tool_errors: u32,
    /// The calls that the gate refused.
    pub denied: u32,
    /// The latency that half of the calls do not exceed, without cancelled and denied ones.
    pub p50: Option<Duration>,
    /// The latency that 99 % of them do not exceed.
    pub p99: Option<Duration>,
}

impl CallHistory {
    /// Adds a call that has ended at this time.
    pub(super) fn add(&self, server: Option<&str>, outcome: StatsOutcome, latency: Duration, at: SystemTime) {
        let mut tracks = lock(&self.0);
        tracks.all.add(outcome, latency, at);
        let Some(server) = server else { return };
        if let Some(track) = tracks.servers.get_mut(server) {
            track.add(outcome, latency, at);
            return;
        }
        if tracks.servers.len() >= MOST_SERVERS {
            // Names come from clients too, so servers that nobody has called for an hour make room.
            tracks.servers.retain(|_, track| !track.is_idle(at));
        }
        if tracks.servers.len() < MOST_SERVERS {
            let track = tracks.servers.entry(server.to_owned()).or_insert_with(|| Track::new(MINUTE));
            track.add(outcome, latency, at);
        }
    }

    /// Reports on all calls.
    pub(super) fn all(&self, now: SystemTime) -> TrackReport {
        lock(&self.0).all.report(now)
    }

    /// Reports on the servers that were called in the last hour, by their ids.
    pub(super) fn servers(&self, now: SystemTime) -> Vec<(String, TrackReport)> {
        let tracks = lock(&self.0);
        let called = tracks.servers.iter().filter(|(_, track)| !track.is_idle(now));
        let mut reports: Vec<_> = called.map(|(server, track)| (server.clone(), track.report(now))).collect();
        drop(tracks);
        reports.sort_by(|(one, _), (other, _)| one.cmp(other));
        reports
    }
}

impl Default for Tracks {
    fn default() -> Self {
        Tracks { all: Track::new(TEN_SECONDS), servers: HashMap::new() }
    }
}

/// Reports whether a call belongs to its server's figures: one that was sent to it or would have been, or that was kept
/// back, but not one with wrong arguments.
pub(super) fn concerns_server(attempts: u32, code: Code) -> bool {
    attempts > 0 || gate::is_kept_back(code)
}

/// The slots of an hour.
#[derive(Debug)]
struct Track(Hour<Slot>);

/// What happened in a part of the wall clock.
#[derive(Clone, Debug)]
struct Slot {
    calls: u32,
    failures: u32,
    tool_errors: u32,
    denied: u32,
    latencies: [u32; BUCKETS],
}

impl Track {
    fn new(seconds: u64) -> Self {
        Track(Hour::new(seconds))
    }

    fn add(&mut self, outcome: StatsOutcome, latency: Duration, at: SystemTime) {
        self.0.slot(at).add(outcome, latency);
    }

    fn is_idle(&self, now: SystemTime) -> bool {
        self.0.used(now).next().is_none()
    }

    fn report(&self, now: SystemTime) -> TrackReport {
        let (mut slots, mut sum) = (vec![SlotReport::default(); self.0.len()], Slot::default());
        for (place, slot) in self.0.used(now) {
            slots[place] = slot.report();
            sum.merge(slot);
        }
        TrackReport { slot: self.0.length(), ends: self.0.ends(now), slots, sum: sum.report() }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Slot { calls: 0, failures: 0, tool_errors: 0, denied: 0, latencies: [0; BUCKETS] }
    }
}

impl Slot {
    fn add(&mut self, outcome: StatsOutcome, latency: Duration) {
        let count = |figure: &mut u32| *figure = figure.saturating_add(1);
        count(&mut self.calls);
        match outcome {
            StatsOutcome::Ok => {}
            StatsOutcome::ToolError => count(&mut self.tool_errors),
            StatsOutcome::Failed | StatsOutcome::Unknown => count(&mut self.failures),
            StatsOutcome::Denied => return count(&mut self.denied),
            StatsOutcome::Cancelled => return,
        }
        count(&mut self.latencies[bucket_of(latency)]);
    }

    fn merge(&mut self, other: &Slot) {
        let figures = [
            (&mut self.calls, other.calls),
            (&mut self.failures, other.failures),
            (&mut self.tool_errors, other.tool_errors),
            (&mut self.denied, other.denied),
        ];
        for (sum, figure) in figures.into_iter().chain(self.latencies.iter_mut().zip(other.latencies)) {
            *sum = sum.saturating_add(figure);
        }
    }

    fn report(&self) -> SlotReport {
        let Slot { calls, failures, tool_errors, denied, .. } = *self;
        SlotReport { calls, failures, tool_errors, denied, p50: self.quantile(0.5), p99: self.quantile(0.99) }
    }

    /// Returns the latency that this part of the calls, from 0 to 1, does not exceed; it is up to 19 % too long or short.
    fn quantile(&self, part: f64) -> Option<Duration> {
        let count: u64 = self.latencies.iter().map(|count| u64::from(*count)).sum();
        let rank = ((part * count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let bucket = self.latencies.iter().position(|count| {
            below += u64::from(*count);
            below >= rank
        })?;
        Some(Duration::from_secs_f64(SHORTEST / 1e9 * 2f64.powf((bucket as f64 - 0.5) / STEPS)))
    }
}

/// Returns the bucket of a latency: the first one has all up to 10 µs, and each other one those up to √2 times longer.
fn bucket_of(latency: Duration) -> usize {
    let bucket = (latency.as_nanos() as f64 / SHORTEST).log2() * STEPS;
    (bucket.ceil().max(0.0) as usize).min(BUCKETS - 1)
}

/// The slots of all servers together.
const TEN_SECONDS: u64 = 10;
/// The slots of each server.
const MINUTE: u64 = 60;
/// The most servers that are told apart. Each takes 12.5 KB in its 60 slots, and all calls take 75 KB in 360.
const MOST_SERVERS: usize = 150;
/// From 10 µs to a minute.
const BUCKETS: usize = 46;
/// The upper bound of the first bucket, in nanoseconds.
const SHORTEST: f64 = 10_000.0;
/// How many buckets it takes to get to twice the latency.
const STEPS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hour::HOUR;

    const START: u64 = 1_800_000_000;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(START + seconds)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_call_is_in_the_slot_of_its_time_for_an_hour() {
        let history = CallHistory::default();
        history.add(Some("a"), StatsOutcome::Ok, ms(1), at(9));
        history.add(Some("b"), StatsOutcome::Failed, ms(1), at(10));
        history.add(None, StatsOutcome::Failed, ms(1), at(10));
        let counts = |seconds: u64| {
            let report = history.all(at(seconds));
            assert_eq!((report.slots.len(), report.slot), (360, Duration::from_secs(10)));
            assert_eq!(report.ends, at(seconds / 10 * 10 + 10));
            let used = report.slots.iter().enumerate().filter(|(_, slot)| slot.calls > 0);
            used.map(|(place, slot)| (place, slot.calls, slot.failures)).collect::<Vec<_>>()
        };
        assert_eq!(counts(10), [(358, 1, 0), (359, 2, 2)]);
        assert_eq!(counts(3599), [(0, 1, 0), (1, 2, 2)]);
        assert_eq!(counts(3600), [(0, 2, 2)]);
        assert!(counts(3610).is_empty());
        // Half an hour later, a clock is set back.
        history.add(None, StatsOutcome::Ok, ms(1), at(1800));
        assert_eq!(counts(19), [(358, 1, 0), (359, 2, 2)]);
        // An hour later, the slot begins anew.
        history.add(None, StatsOutcome::Ok, ms(1), at(3610));
        assert_eq!(counts(3619), [(178, 1, 0), (359, 1, 0)]);
        let servers = history.servers(at(60));
        let servers: Vec<_> = servers.iter().map(|(server, report)| (server.as_str(), report.sum.calls)).collect();
        assert_eq!(servers, [("a", 1), ("b", 1)]);
        assert!(history.servers(at(3600)).is_empty());
    }

    #[test]
    fn each_call_counts_by_its_outcome_and_only_answers_have_a_latency() {
        let history = CallHistory::default();
        let outcomes = [
            (StatsOutcome::Ok, 96),
            (StatsOutcome::ToolError, 2),
            (StatsOutcome::Unknown, 1),
            (StatsOutcome::Failed, 1),
            (StatsOutcome::Denied, 3),
            (StatsOutcome::Cancelled, 4),
        ];
        for (outcome, count) in outcomes {
            (0..count).for_each(|_| history.add(Some("a"), outcome, ms(if count == 96 { 10 } else { 1000 }), at(0)));
        }
        let (_, report) = history.servers(at(0)).remove(0);
        let SlotReport { calls, failures, tool_errors, denied, p50, p99 } = report.sum;
        assert_eq!((calls, failures, tool_errors, denied), (107, 2, 2, 3));
        assert_eq!(report.slots.last(), Some(&report.sum));
        for (quantile, exact) in [(p50, 0.010), (p99, 1.0)] {
            let ratio = quantile.unwrap().as_secs_f64() / exact;
            assert!((0.8..1.25).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn latencies_of_any_length_have_a_bucket() {
        for (latency, bucket) in [
            (Duration::ZERO, 0),
            (Duration::from_micros(10), 0),
            (Duration::from_micros(11), 1),
            (Duration::from_micros(20), 2),
            (Duration::from_secs(1000), BUCKETS - 1),
            (Duration::MAX, BUCKETS - 1),
        ] {
            assert_eq!(bucket_of(latency), bucket, "{latency:?}");
        }
    }

    #[test]
    fn memory_is_bounded_and_servers_that_nobody_calls_make_room() {
        let history = CallHistory::default();
        let add = |server: usize, seconds| history.add(Some(&server.to_string()), StatsOutcome::Ok, ms(1), at(seconds));
        (0..MOST_SERVERS + 50).for_each(|server| add(server, 0));
        assert_eq!(history.servers(at(0)).len(), MOST_SERVERS);
        assert_eq!(history.all(at(0)).sum.calls as usize, MOST_SERVERS + 50);
        add(7, 1800);
        add(1000, 3600);
        let servers: Vec<_> = history.servers(at(3600)).into_iter().map(|(server, _)| server).collect();
        assert_eq!(servers, ["1000", "7"]);
        let bytes = |slots: u64| slots as usize * size_of::<(u64, Slot)>();
        let most = bytes(HOUR / TEN_SECONDS) + MOST_SERVERS * bytes(HOUR / MINUTE);
        assert!(most < 2_000_000, "{most} bytes");
    }
}
