//! What holds in every life of a server, tried on random ones.

use super::{
    pairs::{STATES, events},
    *,
};
use proptest::prelude::*;

/// What a host sees from outside: whether an attempt or a connection is really there.
#[derive(Default)]
struct World {
    attempting: bool,
    running: bool,
    users: u32,
}

impl World {
    fn happens(&mut self, event: &Event) {
        match event {
            Wanted => self.users += 1,
            Released => self.users = self.users.saturating_sub(1),
            Connected => (self.attempting, self.running) = (false, true),
            Failed(_) if self.attempting => self.attempting = false,
            Failed(failure) if !wants_authorization(failure) => self.running = false,
            Exited => self.running = false,
            _ => {}
        }
    }

    fn obeys(&mut self, command: &Command, state: State) {
        match command {
            Command::Connect => {
                assert!(!self.attempting, "two attempts at once");
                self.attempting = true;
            }
            Command::Stop => {
                assert!(self.attempting || self.running, "nothing to stop");
                (self.attempting, self.running) = (false, false);
            }
            Command::Probe => assert!(matches!(state, State::Ready | State::Degraded), "a probe in {state:?}"),
            Command::WaitUntil(range) => assert!(range.min_ms <= range.max_ms),
        }
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), 0u64..5_000, prop::collection::vec(0u64..3_000, 0..4), 0u64..3_000, 0u64..5_000).prop_map(
        |(eager, acquire_limit_ms, restart_delays_ms, health_interval_ms, idle_timeout_ms)| Policy {
            eager,
            acquire_limit_ms,
            restart_delays_ms,
            health_interval_ms,
            idle_timeout_ms,
            one_shot: false,
            prove: false,
        },
    )
}

fn any_life() -> impl Strategy<Value = Vec<(u64, Event)>> {
    prop::collection::vec((0u64..2_000, prop::sample::select(events().to_vec())), 0..60)
}

fn any_server() -> impl Strategy<Value = Server> {
    let times = (any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
    let rest = (prop::sample::select(STATES.to_vec()), any::<u32>(), any::<u32>(), any::<bool>(), any::<bool>());
    (rest, times).prop_map(|((state, users, restarts, attempting, proven), (since_ms, retry, probe, idle))| Server {
        state,
        users,
        restarts,
        attempting,
        since_ms,
        retry_at_ms: retry,
        probe_at_ms: probe,
        idle_at_ms: idle,
        proven,
        lost: false,
    })
}

/// What holds after any step, from any server.
fn check(next: &Transition, policy: &Policy) {
    let server = &next.server;
    let pending = [server.retry_at_ms, server.probe_at_ms, server.idle_at_ms];
    let acquires = server.state == State::Connecting;
    let timers = next.commands.iter().filter(|command| matches!(command, Command::WaitUntil(_))).count();
    assert_eq!(timers, usize::from(acquires || pending.iter().any(Option::is_some)), "{next:?}");
    assert!(timers == 0 || matches!(next.commands.last(), Some(Command::WaitUntil(_))), "the timer is last: {next:?}");
    if server.is_coming_up() {
        assert_ne!(server.attempting, server.retry_at_ms.is_some(), "an attempt or a time for one: {next:?}");
    } else {
        assert!(!server.attempting && server.retry_at_ms.is_none(), "{next:?}");
    }
    let wanted = server.users > 0 || policy.eager;
    assert!(!(wanted && server.state == State::Dormant), "nobody sleeps who is wanted: {next:?}");
    assert_eq!(server.idle_at_ms.is_some(), !wanted && (server.is_up() || server.is_coming_up()), "{next:?}");
}

proptest! {
    #[test]
    fn no_life_breaks_the_rules(policy in any_policy(), enabled in any::<bool>(), life in any_life()) {
        let (mut server, mut world, mut now) = (Server::new(enabled), World::default(), 0);
        for (pause, event) in life {
            now += pause;
            world.happens(&event);
            let next = step(&server, &event, &policy, now);
            for command in &next.commands {
                world.obeys(command, next.server.state);
            }
            check(&next, &policy);
            prop_assert_eq!(next.server.users, world.users);
            prop_assert_eq!(next.server.attempting, world.attempting);
            server = next.server;
        }
    }

    #[test]
    fn any_record_at_any_time_gives_a_sound_one(
        server in any_server(), event in prop::sample::select(events().to_vec()), policy in any_policy(), now in any::<u64>(),
    ) {
        let next = step(&server, &event, &policy, now);
        check(&next, &policy);
        prop_assert_eq!(step(&server, &event, &policy, now), next);
    }

    #[test]
    fn only_differences_of_time_matter(policy in any_policy(), life in any_life(), shift in 0u64..1 << 40) {
        let (mut early, mut late, mut now) = (Server::new(true), Server::new(true), 0);
        late.since_ms = shift;
        for (pause, event) in life {
            now += pause;
            let mut here = step(&early, &event, &policy, now);
            let there = step(&late, &event, &policy, now + shift);
            (early, late) = (here.server, there.server);
            here.server = shifted(here.server, shift);
            for command in &mut here.commands {
                if let Command::WaitUntil(range) = command {
                    (range.min_ms, range.max_ms) = (range.min_ms + shift, range.max_ms + shift);
                }
            }
            prop_assert_eq!(here, there);
        }
    }
}

fn shifted(server: Server, shift: u64) -> Server {
    Server {
        since_ms: server.since_ms + shift,
        retry_at_ms: server.retry_at_ms.map(|at| at + shift),
        probe_at_ms: server.probe_at_ms.map(|at| at + shift),
        idle_at_ms: server.idle_at_ms.map(|at| at + shift),
        ..server
    }
}
