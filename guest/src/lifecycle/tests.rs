//! Stories of one server, told event by event.

use super::{Event::*, *};
use crate::types::HttpFailure;

/// When, what happened, where the server then stands, and the commands as text.
type Line = (u64, Event, State, &'static str);

/// Plays a story from a server's first event and returns what is remembered at its end.
fn play(policy: &Policy, story: &[Line]) -> Server {
    let mut server = Server::new(true);
    for (at, event, state, commands) in story {
        let next = step(&server, event, policy, *at);
        assert_eq!((next.server.state, show(&next.commands).as_str()), (*state, *commands), "{event:?} at {at}");
        server = next.server;
    }
    server
}

fn show(commands: &[Command]) -> String {
    let words: Vec<String> = commands
        .iter()
        .map(|command| match command {
            Command::Connect => "connect".into(),
            Command::Probe => "probe".into(),
            Command::Stop => "stop".into(),
            Command::WaitUntil(range) if range.min_ms == range.max_ms => format!("wait {}", range.min_ms),
            Command::WaitUntil(range) => format!("wait {}-{}", range.min_ms, range.max_ms),
        })
        .collect();
    words.join(", ")
}

fn refused() -> Event {
    Failed(Failure::Connect("refused".into()))
}

fn unauthorized() -> Event {
    Failed(Failure::Http(HttpFailure { status: 401, session: false, challenge: false, retry_after_ms: None }))
}

#[test]
fn one_attempt_is_shared_by_all_who_want_the_server() {
    let server = play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, Wanted, State::Connecting, "wait 60000"),
            (20, Wanted, State::Connecting, "wait 60000"),
            (30, Released, State::Connecting, "wait 60000"),
            (40, Connected, State::Ready, "wait 15040"),
            (50, Wanted, State::Ready, "wait 15040"),
        ],
    );
    assert_eq!((server.users, server.restarts, server.proven), (3, 0, true));
}

#[test]
fn callers_wait_up_to_the_limit_and_then_fail_at_once_while_attempts_go_on() {
    let mut server = play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (50, refused(), State::Connecting, "connect, wait 60000"),
            (100, refused(), State::Connecting, "wait 1100-1300"),
            (1_150, Tick, State::Connecting, "connect, wait 60000"),
            (1_200, refused(), State::Connecting, "wait 3200-3600"),
            (3_200, Tick, State::Connecting, "connect, wait 60000"),
            (60_000, Tick, State::Failed, ""),
            (60_010, Wanted, State::Failed, ""),
            (60_100, refused(), State::Failed, "wait 65100-66100"),
            (60_200, Wanted, State::Failed, "wait 65100-66080"),
            (65_100, Tick, State::Failed, "connect"),
        ],
    );
    // It never expires: a week later it is still trying, and the first success ends it.
    let mut now = 65_100;
    while now < 7 * 24 * 3_600_000 {
        server = step(&server, &refused(), &Policy::default(), now).server;
        now = server.retry_at_ms.expect("a next attempt");
        server = step(&server, &Tick, &Policy::default(), now).server;
        assert_eq!((server.state, server.attempting), (State::Failed, true));
    }
    assert_eq!(step(&server, &Connected, &Policy::default(), now).server.state, State::Ready);
}

#[test]
fn callers_wait_no_longer_for_an_attempt_that_hangs() {
    let policy = Policy { acquire_limit_ms: 3_000, ..Policy::default() };
    let story = [
        (0, Wanted, State::Connecting, "connect, wait 3000"),
        (3_000, Tick, State::Failed, ""),
        (4_000, Wanted, State::Failed, ""),
    ];
    let hanging = play(&policy, &story);
    assert!(hanging.attempting, "the attempt goes on without callers");
    let up = step(&hanging, &Connected, &policy, 20_000);
    assert_eq!((up.server.state, up.server.restarts), (State::Ready, 0));
    let down = step(&hanging, &refused(), &policy, 30_000);
    assert_eq!((down.server.state, show(&down.commands).as_str()), (State::Failed, "connect"));
}

#[test]
fn a_failure_after_the_limit_ends_the_wait_too() {
    let policy = Policy { acquire_limit_ms: 500, restart_delays_ms: vec![1_000], ..Policy::default() };
    play(
        &policy,
        &[(0, Wanted, State::Connecting, "connect, wait 500"), (600, refused(), State::Failed, "wait 1600-1800")],
    );
    // The next attempt would come after the limit: the timer is for the limit.
    play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 500"),
            (100, refused(), State::Connecting, "wait 500"),
            (500, Tick, State::Failed, "wait 1100-1220"),
        ],
    );
}

#[test]
fn a_tick_before_its_time_only_asks_again() {
    play(
        &Policy { restart_delays_ms: vec![1_000], ..Policy::default() },
        &[
            (1_000, Wanted, State::Connecting, "connect, wait 61000"),
            (1_000, refused(), State::Connecting, "wait 2000-2200"),
            (1_500, Tick, State::Connecting, "wait 2000-2100"),
            (0, Tick, State::Connecting, "wait 2000-2400"),
            (2_000, Tick, State::Connecting, "connect, wait 61000"),
        ],
    );
}

#[test]
fn a_tick_of_an_earlier_time_does_not_end_a_new_start() {
    let policy = Policy { acquire_limit_ms: 20, restart_delays_ms: vec![3_600_000], ..Policy::default() };
    play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 20"),
            (0, refused(), State::Connecting, "wait 20"),
            (20, Tick, State::Failed, "wait 3600000-4319996"),
            (50, Disabled, State::Disabled, ""),
            (50, Enabled, State::Connecting, "connect, wait 70"),
            (60, Tick, State::Connecting, "wait 70"),
            (65, Connected, State::Ready, "wait 15065"),
        ],
    );
}

#[test]
fn a_lost_server_is_restarted_at_once_and_then_on_the_schedule() {
    let policy = Policy { health_interval_ms: 0, ..Policy::default() };
    let mut server = play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (40, Connected, State::Ready, ""),
            (1_000, Exited, State::Restarting, "connect"),
        ],
    );
    let mut now = 1_000;
    for (restarts, delay) in [(2, 1_000), (3, 2_000), (4, 5_000), (5, 10_000), (6, 30_000), (7, 60_000), (8, 60_000)] {
        let failed = step(&server, &refused(), &policy, now);
        assert_eq!((failed.server.state, failed.server.restarts), (State::Failed, restarts));
        let due = now + delay;
        assert_eq!(show(&failed.commands), format!("wait {due}-{}", due + delay / 5));
        let retried = step(&failed.server, &Tick, &policy, due);
        assert_eq!(show(&retried.commands), "connect");
        (server, now) = (retried.server, due);
    }
    server = step(&server, &Connected, &policy, now).server;
    // Until a probe is answered or some time has passed, its next end is the same story and waits as long.
    assert_eq!((server.state, server.restarts), (State::Ready, 8));
    let again = step(&server, &Exited, &policy, now + 1).commands;
    assert_eq!(show(&again), format!("wait {}-{}", now + 60_001, now + 72_001));
    let held = step(&server, &ProbeOk, &policy, now + 1).server;
    assert_eq!(show(&step(&held, &Exited, &policy, now + 2).commands), "connect");
}

#[test]
fn a_server_that_dies_soon_after_each_restart_is_restarted_ever_more_slowly() {
    let policy = Policy { health_interval_ms: 0, ..Policy::default() };
    play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, Connected, State::Ready, ""),
            (20, Exited, State::Restarting, "connect"),
            (30, Connected, State::Ready, ""),
            (40, Exited, State::Restarting, "wait 1040-1240"),
            (1_040, Tick, State::Restarting, "connect"),
            (1_050, Connected, State::Ready, ""),
            (1_060, Exited, State::Restarting, "wait 3060-3460"),
            (3_060, Tick, State::Restarting, "connect"),
            (3_070, Connected, State::Ready, ""),
            (13_070, Exited, State::Restarting, "connect"),
            (13_080, Connected, State::Ready, ""),
            (13_090, CallTimedOut, State::Degraded, "probe"),
            (13_100, ProbeOk, State::Ready, ""),
            (13_110, Exited, State::Restarting, "connect"),
        ],
    );
}

#[test]
fn a_configured_schedule_decides_the_first_restart_as_well() {
    let policy = Policy { restart_delays_ms: vec![500], health_interval_ms: 0, ..Policy::default() };
    play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, Connected, State::Ready, ""),
            (100, Exited, State::Restarting, "wait 600-700"),
            (600, Tick, State::Restarting, "connect"),
            (700, refused(), State::Failed, "wait 1200-1300"),
        ],
    );
}

#[test]
fn a_lost_server_that_nobody_wants_sleeps_and_counts_as_ready() {
    let server = play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, Connected, State::Ready, "wait 15010"),
            (20, Released, State::Ready, "wait 15010"),
            (30, Exited, State::Dormant, ""),
        ],
    );
    assert!(counts_as_ready(&server));
    play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, Connected, State::Ready, "wait 15010"),
            (20, Released, State::Ready, "wait 15010"),
            (15_010, Tick, State::Ready, "probe, wait 300020"),
            (15_020, ProbeFailed, State::Degraded, "probe, wait 300020"),
            (15_030, ProbeFailed, State::Dormant, "stop"),
        ],
    );
}

#[test]
fn health_is_looked_at_every_interval_and_twice_before_a_restart() {
    play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (0, Connected, State::Ready, "wait 15000"),
            (15_000, Tick, State::Ready, "probe"),
            (15_100, ProbeOk, State::Ready, "wait 30100"),
            (30_100, Tick, State::Ready, "probe"),
            (35_100, ProbeFailed, State::Degraded, "probe"),
            (35_200, ProbeOk, State::Ready, "wait 50200"),
            (50_200, Tick, State::Ready, "probe"),
            (55_200, ProbeFailed, State::Degraded, "probe"),
            (55_300, CallTimedOut, State::Degraded, ""),
            (58_200, ProbeFailed, State::Restarting, "stop, connect"),
            (58_300, Exited, State::Restarting, ""),
            (58_400, Connected, State::Ready, "wait 73400"),
        ],
    );
}

#[test]
fn timed_out_calls_probe_and_restart_only_if_the_probe_fails() {
    // Facts 66-shared (two timeouts, probes true then false: two probes, one restart), 72-probe-success-no-restart and
    // 71 (callers wait in `restarting`). An aborted call is no event of this machine, so it probes nothing.
    play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (0, Connected, State::Ready, "wait 15000"),
            (1_000, CallTimedOut, State::Degraded, "probe"),
            (1_100, ProbeOk, State::Ready, "wait 16100"),
            (2_000, CallTimedOut, State::Degraded, "probe"),
            (5_000, ProbeFailed, State::Restarting, "stop, connect"),
            (5_100, Wanted, State::Restarting, ""),
            (5_200, Connected, State::Ready, "wait 20200"),
            (5_300, Released, State::Ready, "wait 20200"),
        ],
    );
}

#[test]
fn failing_restarts_are_one_loop_that_ends_with_the_first_success() {
    // Facts 72-shared-restart-error and 73-backoff: one decision to restart, two failures, three attempts, recovered.
    let server = play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (0, Connected, State::Ready, "wait 15000"),
            (1_000, CallTimedOut, State::Degraded, "probe"),
            (4_000, ProbeFailed, State::Restarting, "stop, connect"),
            (4_100, refused(), State::Failed, "wait 5100-5300"),
            (4_200, CallTimedOut, State::Failed, "wait 5100-5280"),
            (4_300, Exited, State::Failed, "wait 5100-5260"),
            (5_100, Tick, State::Failed, "connect"),
            (5_200, refused(), State::Failed, "wait 7200-7600"),
            (7_200, Tick, State::Failed, "connect"),
            (7_300, Connected, State::Ready, "wait 22300"),
        ],
    );
    assert_eq!(server.restarts, 3, "it has yet to show that it holds");
    let settled = step(&server, &ProbeOk, &Policy::default(), 22_400).server;
    assert_eq!(settled.restarts, 0);
}

#[test]
fn a_server_that_exits_between_calls_is_up_again_for_a_later_call() {
    // Fact 74-idle-exit, for a server that is held.
    play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (0, Connected, State::Ready, "wait 15000"),
            (5_000, Exited, State::Restarting, "connect"),
            (5_010, Wanted, State::Restarting, ""),
            (5_020, Released, State::Restarting, ""),
            (5_500, Connected, State::Ready, "wait 20500"),
            (6_000, Wanted, State::Ready, "wait 20500"),
        ],
    );
}

#[test]
fn the_last_release_keeps_the_server_for_a_while_and_probes_do_not_prolong_it() {
    let policy = Policy { idle_timeout_ms: 20_000, ..Policy::default() };
    let server = play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (0, Connected, State::Ready, "wait 15000"),
            (1_000, Released, State::Ready, "wait 15000"),
            (2_000, Wanted, State::Ready, "wait 15000"),
            (3_000, Released, State::Ready, "wait 15000"),
            (3_500, Released, State::Ready, "wait 15000"),
            (15_000, Tick, State::Ready, "probe, wait 23000"),
            (15_100, ProbeOk, State::Ready, "wait 23000"),
            (23_000, Tick, State::Dormant, "stop"),
            (24_000, ProbeOk, State::Dormant, ""),
        ],
    );
    assert!(counts_as_ready(&server));
}

#[test]
fn in_one_shot_mode_a_failed_attempt_is_the_last_but_a_lost_server_is_restarted() {
    let policy = Policy { one_shot: true, ..Policy::default() };
    play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (50, refused(), State::Failed, ""),
            (60, Wanted, State::Failed, ""),
            (90_000, Tick, State::Failed, ""),
        ],
    );
    let lost = play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (50, Connected, State::Ready, "wait 15050"),
            (60, Exited, State::Restarting, "connect"),
            (70, refused(), State::Failed, ""),
        ],
    );
    assert!(lost.lost);
}

#[test]
fn a_server_that_must_prove_itself_starts_alone_until_it_succeeds_and_then_rests() {
    let policy = Policy { prove: true, idle_timeout_ms: 2_000, ..Policy::default() };
    let proven = play(
        &policy,
        &[
            (0, Enabled, State::Connecting, "connect, wait 60000"),
            (50, refused(), State::Connecting, "connect, wait 60000"),
            (60_000, refused(), State::Failed, "wait 61000-61200"),
            (61_000, Tick, State::Failed, "connect"),
            (61_100, Connected, State::Ready, "wait 63100"),
            (63_100, Tick, State::Dormant, "stop"),
            (70_000, Tick, State::Dormant, ""),
        ],
    );
    assert!(counts_as_ready(&proven));
}

#[test]
fn a_server_is_lost_from_its_end_until_it_is_up_again_or_not_needed() {
    let up = [(0, Wanted, State::Connecting, "connect, wait 60000"), (50, Connected, State::Ready, "wait 15050")];
    let lost = [(60, Exited, State::Restarting, "connect"), (70, refused(), State::Failed, "wait 1070-1270")];
    let lost = [&up[..], &lost].concat();
    assert!(!play(&Policy::default(), &up).lost && play(&Policy::default(), &lost).lost);
    for (event, state, commands) in [
        (Connected, State::Ready, "wait 15080"),
        (Disabled, State::Disabled, ""),
        (Exited, State::Failed, "wait 1070-1268"),
    ] {
        let story = [&lost[..], &[(80, event, state, commands)]].concat();
        assert_eq!(play(&Policy::default(), &story).lost, state == State::Failed, "{state:?}");
    }
    let never = [(0, Wanted, State::Connecting, "connect, wait 60000"), (60_000, refused(), State::Failed, "connect")];
    assert!(!play(&Policy::default(), &never).lost);
}

#[test]
fn a_server_that_does_not_come_up_is_given_up_when_nobody_wants_it_for_a_while() {
    let policy = Policy { idle_timeout_ms: 2_000, ..Policy::default() };
    play(
        &policy,
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (100, Released, State::Connecting, "wait 2100"),
            (2_100, Tick, State::Dormant, "stop"),
            (2_200, Connected, State::Dormant, "stop"),
        ],
    );
    let server = play(
        &Policy { acquire_limit_ms: 0, restart_delays_ms: vec![1_000, 2_000], ..policy },
        &[
            (0, Wanted, State::Connecting, "connect, wait 0"),
            (100, refused(), State::Failed, "wait 1100-1300"),
            (200, Released, State::Failed, "wait 1100-1280"),
            (1_100, Tick, State::Failed, "connect, wait 2200"),
            (1_200, refused(), State::Failed, "wait 2200"),
            (2_200, Tick, State::Dormant, ""),
        ],
    );
    assert!(!counts_as_ready(&server));
}

#[test]
fn an_eager_server_starts_unasked_and_never_idles() {
    let policy = Policy { eager: true, idle_timeout_ms: 1, ..Policy::default() };
    play(
        &policy,
        &[
            (0, Enabled, State::Connecting, "connect, wait 60000"),
            (0, Connected, State::Ready, "wait 15000"),
            (1_000, Wanted, State::Ready, "wait 15000"),
            (2_000, Released, State::Ready, "wait 15000"),
            (3_000, Tick, State::Ready, "wait 15000"),
            (4_000, Exited, State::Restarting, "connect"),
            (5_000, Disabled, State::Disabled, "stop"),
            (6_000, Tick, State::Disabled, ""),
            (7_000, Enabled, State::Connecting, "connect, wait 67000"),
        ],
    );
    play(&policy, &[(0, Tick, State::Connecting, "connect, wait 60000")]);
    play(&Policy::default(), &[(0, Enabled, State::Dormant, ""), (1, Tick, State::Dormant, "")]);
}

#[test]
fn a_disabled_server_counts_its_callers_and_starts_for_them_when_enabled() {
    let server = play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, Disabled, State::Disabled, "stop"),
            (20, Connected, State::Disabled, "stop"),
            (30, Wanted, State::Disabled, ""),
            (40, Released, State::Disabled, ""),
            (50, Enabled, State::Connecting, "connect, wait 60050"),
            (60, Disabled, State::Disabled, "stop"),
            (70, Released, State::Disabled, ""),
            (80, Enabled, State::Dormant, ""),
        ],
    );
    assert_eq!(server, Server { since_ms: 50, ..Server::new(true) });
}

#[test]
fn a_missing_authorization_ends_the_attempts_until_it_is_given() {
    play(
        &Policy::default(),
        &[
            (0, Wanted, State::Connecting, "connect, wait 60000"),
            (10, unauthorized(), State::NeedsAuth, ""),
            (20, Wanted, State::NeedsAuth, ""),
            (30, Tick, State::NeedsAuth, ""),
            (90_000, Authenticated, State::Connecting, "connect, wait 150000"),
            (90_050, refused(), State::Connecting, "connect, wait 150000"),
            (90_100, refused(), State::Connecting, "wait 91100-91300"),
            (91_100, Tick, State::Connecting, "connect, wait 150000"),
            (91_200, Connected, State::Ready, "wait 106200"),
            (92_000, Failed(Failure::NeedsAuth("expired".into())), State::NeedsAuth, "stop"),
        ],
    );
}

#[test]
fn ready_is_what_answers_or_sleeps_after_a_good_start() {
    for (state, proven, expected) in [
        (State::Ready, true, true),
        (State::Degraded, true, true),
        (State::Dormant, true, true),
        (State::Dormant, false, false),
        (State::Disabled, true, false),
        (State::Connecting, true, false),
        (State::Restarting, true, false),
        (State::Failed, true, false),
        (State::NeedsAuth, true, false),
    ] {
        assert_eq!(counts_as_ready(&Server { state, proven, ..Server::new(true) }), expected, "{state:?}");
    }
}

#[test]
fn a_record_without_a_next_attempt_gets_one_now() {
    let server = Server { state: State::Failed, users: 1, ..Server::new(true) };
    let next = step(&server, &Wanted, &Policy::default(), 1_000);
    assert_eq!(show(&next.commands), "wait 1000");
    assert_eq!(show(&step(&next.server, &Tick, &Policy::default(), 1_000).commands), "connect");
}

#[test]
fn a_record_with_an_attempt_and_a_next_one_keeps_to_the_attempt() {
    let server =
        Server { state: State::Failed, users: 1, attempting: true, retry_at_ms: Some(500), ..Server::new(true) };
    let next = step(&server, &Tick, &Policy::default(), 1_000);
    assert_eq!((next.commands, next.server.retry_at_ms), (vec![], None));
}

mod pairs;
mod properties;
