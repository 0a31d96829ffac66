//! Statistics of calls: how many there were, how they ended, and how long they took.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts calls; clones share the same statistics.
#[derive(Clone, Debug, Default)]
pub struct CallStats(Arc<Mutex<StatsSnapshot>>);

/// A running call; it counts as cancelled if it is dropped unfinished.
#[derive(Debug)]
#[must_use = "a call that is dropped unfinished counts as cancelled"]
pub struct InFlightCall {
    stats: CallStats,
    end: Option<(Duration, StatsOutcome)>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsOutcome {
    /// The tool answered.
    Ok,
    /// The tool answered with an error of its own.
    ToolError,
    /// The call failed.
    Failed,
    /// The call failed, but the tool may have run.
    Unknown,
    /// The caller cancelled the call.
    Cancelled,
    /// The gate refused the call: by a rule, for a person who declined it, for its arguments, or since its name means no
    /// tool.
    Denied,
}

/// The statistics at one moment; every call is either in flight or counted once by its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// The calls that have begun.
    pub calls: u64,
    /// The calls that a tool answered.
    pub ok: u64,
    /// The calls that a tool answered with an error of its own.
    pub tool_errors: u64,
    /// The calls that failed.
    pub failures: u64,
    /// The calls that failed although the tool may have run.
    pub unknown: u64,
    /// The calls that the caller cancelled.
    pub cancelled: u64,
    /// The calls that the gate refused.
    pub denied: u64,
    /// The calls in flight.
    pub in_flight: u64,
    /// The latencies of calls, without cancelled and denied ones, which no server answered.
    pub latencies: Histogram,
}

/// A histogram of time spans, accurate to 6.25 % from a microsecond to more than an hour, in 2.2 KB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum: Duration,
    max: Option<Duration>,
}

impl CallStats {
    /// Starts a call.
    pub fn begin(&self) -> InFlightCall {
        let mut totals = self.totals();
        totals.calls += 1;
        totals.in_flight += 1;
        InFlightCall { stats: self.clone(), end: None }
    }

    /// Returns the statistics so far.
    pub fn snapshot(&self) -> StatsSnapshot {
        self.totals().clone()
    }

    /// Locks all counters together, so that a snapshot never sees half a call.
    fn totals(&self) -> MutexGuard<'_, StatsSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightCall {
    /// Ends the call.
    pub fn finish(mut self, latency: Duration, outcome: StatsOutcome) {
        self.end = Some((latency, outcome));
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let mut totals = self.stats.totals();
        totals.in_flight -= 1;
        let Some((latency, outcome)) = self.end else {
            totals.cancelled += 1;
            return;
        };
        match outcome {
            StatsOutcome::Ok => totals.ok += 1,
            StatsOutcome::ToolError => totals.tool_errors += 1,
            StatsOutcome::Failed => totals.failures += 1,
            StatsOutcome::Unknown => totals.unknown += 1,
            StatsOutcome::Cancelled => totals.cancelled += 1,
            StatsOutcome::Denied => totals.denied += 1,
        }
        if !matches!(outcome, StatsOutcome::Cancelled | StatsOutcome::Denied) {
            totals.latencies.record(latency);
        }
    }
}

impl Histogram {
    /// Adds a time span.
    pub fn record(&mut self, span: Duration) {
        self.counts[bucket_of(span)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(span);
        self.max = self.max.max(Some(span));
    }

    /// Returns the number of spans.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all spans, exact.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns the longest span, exact.
    pub fn max(&self) -> Option<Duration> {
        self.max
    }

    /// Returns the span that this part of all spans, from 0 to 1, does not exceed.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let max = self.max?;
        let rank = ((part * self.count as f64).ceil() as u64).max(1);
        if rank >= self.count {
            return Some(max);
        }
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        bucket.map(|bucket| middle(bucket).min(max))
    }

    /// Returns for each bound how many spans do not exceed it; a span counts as the middle of its bucket.
    pub fn buckets(&self, bounds: &[Duration]) -> Vec<u64> {
        let max = self.max.unwrap_or_default();
        let up_to = |bound: &Duration| {
            let within = self.counts.iter().enumerate().take_while(|(bucket, _)| middle(*bucket).min(max) <= *bound);
            within.map(|(_, count)| count).sum()
        };
        bounds.iter().map(up_to).collect()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: [0; BUCKETS], count: 0, sum: Duration::ZERO, max: None }
    }
}

fn bucket_of(span: Duration) -> usize {
    let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let octave = nanoseconds.checked_ilog2().unwrap_or(0);
    if octave < FIRST_OCTAVE {
        return 0;
    }
    if octave >= LAST_OCTAVE {
        return BUCKETS - 1;
    }
    // The bits after the leading one give the part of the octave.
    let part = (nanoseconds >> (octave - PART_BITS)) as usize % PARTS;
    1 + (octave - FIRST_OCTAVE) as usize * PARTS + part
}

/// Returns what all spans of a bucket count as; the last bucket has no middle, so the longest span counts.
fn middle(bucket: usize) -> Duration {
    let nanoseconds = match bucket.checked_sub(1) {
        None => 1 << (FIRST_OCTAVE - 1),
        Some(_) if bucket == BUCKETS - 1 => return Duration::MAX,
        Some(bucket) => {
            let width = 1 << (bucket / PARTS + (FIRST_OCTAVE - PART_BITS) as usize);
            (PARTS + bucket % PARTS) as u64 * width + width / 2
        }
    };
    Duration::from_nanos(nanoseconds)
}

/// The number of buckets of equal width in an octave of nanoseconds; half a bucket is at most a sixteenth of its spans.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 3;
/// Spans below 2⁹ ns share the first bucket.
const FIRST_OCTAVE: u32 = 9;
/// Spans from 2⁴² ns, which is 73 minutes, share the last bucket.
const LAST_OCTAVE: u32 = 42;
const BUCKETS: usize = (LAST_OCTAVE - FIRST_OCTAVE) as usize * PARTS + 2;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);
    const HOUR: Duration = Duration::from_secs(3600);
    const OUTCOMES: [StatsOutcome; 6] = [
        StatsOutcome::Ok,
        StatsOutcome::ToolError,
        StatsOutcome::Failed,
        StatsOutcome::Unknown,
        StatsOutcome::Cancelled,
        StatsOutcome::Denied,
    ];

    fn histogram(spans: &[Duration]) -> Histogram {
        let mut histogram = Histogram::default();
        spans.iter().for_each(|span| histogram.record(*span));
        histogram
    }

    /// Returns sorted spans of every order of magnitude.
    fn random_spans(seed: u64, count: usize, longest: Duration) -> Vec<Duration> {
        let mut random = fastrand::Rng::with_seed(seed);
        let magnitudes = (longest.as_secs_f64() / 1e-6).ln();
        let mut spans: Vec<_> =
            (0..count).map(|_| Duration::from_secs_f64(1e-6 * (random.f64() * magnitudes).exp())).collect();
        spans.sort();
        spans
    }

    fn error_of(measured: Duration, exact: Duration) -> f64 {
        (measured.as_secs_f64() / exact.as_secs_f64() - 1.0).abs()
    }

    #[test]
    fn every_outcome_is_counted_as_itself() {
        let stats = CallStats::default();
        for (outcome, times) in OUTCOMES.into_iter().zip(1..) {
            (0..times).for_each(|_| stats.begin().finish(times * MILLISECOND, outcome));
        }
        let running = stats.begin();
        let StatsSnapshot { calls, ok, tool_errors, failures, unknown, cancelled, denied, in_flight, .. } =
            stats.snapshot();
        assert_eq!(
            [calls, ok, tool_errors, failures, unknown, cancelled, denied, in_flight],
            [22, 1, 2, 3, 4, 5, 6, 1]
        );
        drop(running);
        assert_eq!(stats.snapshot().in_flight, 0);
    }

    #[test]
    fn a_call_that_is_dropped_unfinished_is_cancelled_and_took_no_time() {
        let stats = CallStats::default();
        drop(stats.begin());
        stats.begin().finish(MILLISECOND, StatsOutcome::Cancelled);
        assert_eq!(stats.snapshot(), StatsSnapshot { calls: 2, cancelled: 2, ..StatsSnapshot::default() });
    }

    #[test]
    fn a_snapshot_tells_the_latencies() {
        let stats = CallStats::default();
        (1..=1000).for_each(|n| stats.begin().finish(n * MILLISECOND, StatsOutcome::Ok));
        let latencies = stats.snapshot().latencies;
        for (part, exact) in [(0.5, 500), (0.9, 900), (0.99, 990)] {
            let measured = latencies.quantile(part);
            let error = error_of(measured.unwrap(), exact * MILLISECOND);
            assert!(error <= 0.0625, "{measured:?} for {exact} ms");
        }
        assert_eq!((latencies.max(), latencies.sum()), (Some(1000 * MILLISECOND), 500_500 * MILLISECOND));
    }

    #[test]
    fn quantiles_are_within_a_sixteenth_of_the_truth() {
        for seed in 0..200 {
            let spans = random_spans(seed, 1 + 7 * seed as usize, HOUR);
            let histogram = histogram(&spans);
            for part in [0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
                let rank = (part * spans.len() as f64).ceil().max(1.0) as usize;
                let (measured, exact) = (histogram.quantile(part).unwrap(), spans[rank - 1]);
                assert!(error_of(measured, exact) <= 0.0625, "{measured:?} for {exact:?}, {part} of seed {seed}");
            }
            assert_eq!(histogram.max(), spans.last().copied());
            assert_eq!(histogram.sum(), spans.iter().sum::<Duration>());
            assert_eq!(histogram.count(), spans.len() as u64);
        }
    }

    #[test]
    fn bounds_are_kept_to_within_a_sixteenth() {
        let bounds = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000].map(|bound| bound * MILLISECOND);
        for seed in 0..50 {
            let spans = random_spans(seed, 500, HOUR);
            let below = |bound: Duration| spans.partition_point(|span| *span <= bound) as u64;
            for (measured, bound) in histogram(&spans).buckets(&bounds).into_iter().zip(bounds) {
                let exact = below(bound.mul_f64(0.9375))..=below(bound.mul_f64(1.0667));
                assert!(exact.contains(&measured), "{measured} up to {bound:?}, not in {exact:?}");
            }
        }
    }

    #[test]
    fn every_span_is_in_the_bucket_whose_middle_is_near() {
        for octave in FIRST_OCTAVE..LAST_OCTAVE {
            for edge in (PARTS as u64..2 * PARTS as u64).map(|part| part << (octave - PART_BITS)) {
                for nanoseconds in [edge, edge + 1, edge + (1 << (octave - PART_BITS)) - 1] {
                    let span = Duration::from_nanos(nanoseconds);
                    assert!(error_of(middle(bucket_of(span)), span) <= 0.0625, "{span:?}");
                }
                assert_eq!(bucket_of(Duration::from_nanos(edge)), bucket_of(Duration::from_nanos(edge - 1)) + 1);
            }
        }
    }

    #[test]
    fn spans_out_of_range_are_counted_too() {
        let mut histogram = histogram(&[Duration::ZERO, Duration::from_nanos(1), 2 * HOUR, 3 * HOUR]);
        assert_eq!(histogram.buckets(&[Duration::from_micros(1), HOUR, 3 * HOUR]), [2, 2, 4]);
        assert!(histogram.quantile(0.5).unwrap() < Duration::from_micros(1));
        assert_eq!(histogram.quantile(0.75), Some(3 * HOUR));
        histogram.record(Duration::MAX);
        assert_eq!((histogram.max(), histogram.sum()), (Some(Duration::MAX), Duration::MAX));
    }

    #[test]
    fn without_calls_there_are_no_quantiles() {
        assert_eq!(CallStats::default().snapshot(), StatsSnapshot::default());
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().buckets(&[Duration::ZERO, HOUR]), [0, 0]);
    }

    #[test]
    fn one_call_is_known_exactly_and_foolish_parts_do_no_harm() {
        let odd = Duration::from_nanos(123_456_789);
        for part in [0.0, 0.5, 1.0, 7.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(histogram(&[odd]).quantile(part), Some(odd), "{part}");
        }
    }

    #[test]
    fn threads_lose_no_counts_and_no_snapshot_sees_half_a_call() {
        let (threads, rounds) = (8, 2000);
        let stats = CallStats::default();
        let work = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            for round in 0..rounds {
                let call = stats.begin();
                match random.choice(OUTCOMES) {
                    Some(StatsOutcome::Cancelled) | None => drop(call),
                    Some(outcome) => call.finish(MILLISECOND, outcome),
                }
                if round % 100 == 0 {
                    assert!(stats.snapshot().in_flight <= threads);
                }
            }
        };
        std::thread::scope(|scope| (0..threads).for_each(|seed| drop(scope.spawn(move || work(seed)))));
        let seen = stats.snapshot();
        let ended = [seen.ok, seen.tool_errors, seen.failures, seen.unknown, seen.cancelled, seen.denied];
        let answered = seen.calls - seen.cancelled - seen.denied;
        assert_eq!((seen.calls, seen.in_flight), (threads * rounds, 0));
        assert_eq!(ended.iter().sum::<u64>(), seen.calls);
        assert_eq!(seen.latencies.count(), answered);
        assert_eq!(seen.latencies.sum(), u32::try_from(answered).unwrap() * MILLISECOND);
    }

    #[test]
    fn a_histogram_is_small() {
        assert!(size_of::<Histogram>() <= 2560, "{} bytes", size_of::<Histogram>());
    }
}
