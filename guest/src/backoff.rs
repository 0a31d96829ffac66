//! How long to wait before a retry or restart: ranges and schedules, from which the host draws.

use crate::types::WaitRange;

/// The default delays before restarts, in milliseconds; the last one repeats.
pub const SCHEDULE_MS: [u64; 7] = [0, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// Returns the delay before a restart, given the number of earlier restarts; without a schedule, or with an empty one,
/// the built-in one applies.
pub fn restart_delay(restarts: u32, schedule_ms: Option<&[u64]>) -> u64 {
    let schedule = schedule_ms.filter(|schedule| !schedule.is_empty()).unwrap_or(&SCHEDULE_MS);
    let index = usize::try_from(restarts).unwrap_or(usize::MAX).min(schedule.len() - 1);
    schedule[index]
}

/// Returns a range for the delay with jitter: at least the delay, at most a fifth longer.
pub fn spread(delay_ms: u64) -> WaitRange {
    WaitRange { min_ms: delay_ms, max_ms: delay_ms.saturating_add(delay_ms / 5) }
}

/// Returns the wait before the one retry of an operation: 250 to 750 ms, or the server's Retry-After if that is longer.
pub fn retry_wait(retry_after_ms: Option<u64>) -> WaitRange {
    let asked = retry_after_ms.unwrap_or(0);
    WaitRange { min_ms: asked.max(RETRY_MIN_MS), max_ms: asked.max(RETRY_MAX_MS) }
}

const RETRY_MIN_MS: u64 = 250;
const RETRY_MAX_MS: u64 = 750;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn restart_delays_follow_the_schedule_and_repeat_its_last() {
        for (restarts, expected) in [0, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 60_000, 60_000].iter().enumerate()
        {
            assert_eq!(restart_delay(restarts as u32, None), *expected, "after {restarts} restarts");
        }
        assert_eq!(restart_delay(u32::MAX, None), 60_000);
    }

    #[test]
    fn a_schedule_replaces_the_built_in_one_unless_it_is_empty() {
        for (restarts, schedule, expected) in
            [(0, &[7][..], 7), (9, &[7], 7), (1, &[7, 8, 9], 8), (5, &[7, 8, 9], 9), (0, &[], 0), (3, &[], 5_000)]
        {
            assert_eq!(restart_delay(restarts, Some(schedule)), expected, "{restarts} of {schedule:?}");
        }
    }

    #[test]
    fn a_delay_is_spread_by_up_to_a_fifth() {
        for (delay, max) in [(0, 0), (4, 4), (1_000, 1_200), (60_000, 72_000), (u64::MAX, u64::MAX)] {
            assert_eq!(spread(delay), WaitRange { min_ms: delay, max_ms: max });
        }
    }

    #[test]
    fn a_retry_waits_as_long_as_the_server_asked() {
        for (retry_after, min_ms, max_ms) in [
            (None, 250, 750),
            (Some(0), 250, 750),
            (Some(250), 250, 750),
            (Some(600), 600, 750),
            (Some(750), 750, 750),
            (Some(2_000), 2_000, 2_000),
            (Some(u64::MAX), u64::MAX, u64::MAX),
        ] {
            assert_eq!(retry_wait(retry_after), WaitRange { min_ms, max_ms }, "Retry-After {retry_after:?}");
        }
    }

    proptest! {
        #[test]
        fn ranges_never_end_before_they_begin(ms in any::<u64>()) {
            let (delay, wait) = (spread(ms), retry_wait(Some(ms)));
            prop_assert!(delay.min_ms == ms && delay.max_ms >= ms);
            prop_assert!(wait.min_ms >= ms.max(250) && wait.max_ms >= wait.min_ms);
        }
    }
}
