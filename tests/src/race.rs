//! Measures contenders in turns, so that a busy machine slows down all of them alike.

use std::time::{Duration, Instant};

/// Returns the median time of one run of each contender, over `rounds` rounds of `runs` runs, after a warm-up round.
pub fn race<const N: usize>(rounds: usize, runs: u32, mut contenders: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..=rounds {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (0..runs).for_each(|_| contender());
            if round > 0 {
                times.push(start.elapsed() / runs);
            }
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[rounds / 2]
    })
}

/// Prints a time that others are compared with.
pub fn base(what: &str, time: Duration) {
    println!("{what:<58} {time:>10.2?}");
}

/// Prints a time and its ratio to another one, without a limit.
pub fn compare(what: &str, time: Duration, than: Duration) {
    let ratio = ratio(time, than);
    println!("{what:<58} {time:>10.2?}  {ratio:>5.2} ×");
}

/// Prints a time, and whether its ratio to another one is within the limit.
pub fn report(what: &str, time: Duration, than: Duration, limit: f64) {
    let ratio = ratio(time, than);
    let verdict = if ratio <= limit { "ok" } else { "TOO SLOW" };
    println!("{what:<58} {time:>10.2?}  {ratio:>5.2} × (at most {limit} ×) {verdict}");
}

/// Prints a figure, and whether it is as the design wants it.
pub fn verdict(what: &str, figure: &str, wanted: &str, is_good: bool) {
    println!("{what:<58} {figure:>10}  ({wanted}) {}", if is_good { "ok" } else { "MISSED" });
}

/// Prints a ratio, and whether it is within the limit.
pub fn within(what: &str, ratio: f64, most: f64) {
    verdict(what, &format!("{ratio:.3} ×"), &format!("at most {most} ×"), ratio <= most);
}

fn ratio(time: Duration, than: Duration) -> f64 {
    time.as_secs_f64() / than.as_secs_f64()
}
