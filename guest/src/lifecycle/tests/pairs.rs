//! Every pair of state and event.

use super::*;

#[test]
fn every_event_has_its_effect_in_every_state() {
    let effects = [
        (State::Disabled, Enabled, State::Connecting, "connect"),
        (State::Disabled, Connected, State::Disabled, "stop"),
        (State::Dormant, Disabled, State::Disabled, ""),
        (State::Dormant, Wanted, State::Connecting, "connect"),
        (State::Dormant, Connected, State::Dormant, "stop"),
        (State::Connecting, Disabled, State::Disabled, "stop"),
        (State::Connecting, Connected, State::Ready, ""),
        (State::Connecting, refused(), State::Connecting, "connect"),
        (State::Connecting, unauthorized(), State::NeedsAuth, ""),
        (State::Ready, Disabled, State::Disabled, "stop"),
        (State::Ready, refused(), State::Restarting, "connect"),
        (State::Ready, unauthorized(), State::NeedsAuth, "stop"),
        (State::Ready, Exited, State::Restarting, "connect"),
        (State::Ready, ProbeFailed, State::Degraded, "probe"),
        (State::Ready, CallTimedOut, State::Degraded, "probe"),
        (State::Degraded, Disabled, State::Disabled, "stop"),
        (State::Degraded, refused(), State::Restarting, "connect"),
        (State::Degraded, unauthorized(), State::NeedsAuth, "stop"),
        (State::Degraded, Exited, State::Restarting, "connect"),
        (State::Degraded, ProbeOk, State::Ready, ""),
        (State::Degraded, ProbeFailed, State::Restarting, "stop, connect"),
        (State::Restarting, Disabled, State::Disabled, "stop"),
        (State::Restarting, Connected, State::Ready, ""),
        (State::Restarting, refused(), State::Failed, ""),
        (State::Restarting, unauthorized(), State::NeedsAuth, ""),
        (State::Failed, Disabled, State::Disabled, ""),
        (State::Failed, Connected, State::Ready, ""),
        (State::NeedsAuth, Disabled, State::Disabled, ""),
        (State::NeedsAuth, Connected, State::Ready, ""),
        (State::NeedsAuth, Authenticated, State::Connecting, "connect"),
    ];
    for state in STATES {
        for event in events() {
            let effect = effects.iter().find(|effect| effect.0 == state && effect.1 == event);
            // Whatever is not listed leaves the server where it stands.
            let expected = effect.map_or((state, ""), |effect| (effect.2, effect.3));
            let mut next = step(&server_in(state), &event, &Policy::default(), 1_000);
            next.commands.retain(|command| !matches!(command, Command::WaitUntil(_)));
            assert_eq!((next.server.state, show(&next.commands).as_str()), expected, "{event:?} in {state:?}");
        }
    }
}

#[test]
fn a_failed_start_is_not_proven_however_it_failed() {
    let policy = Policy::default();
    for (state, event, proven) in [
        (State::Connecting, Connected, true),
        (State::Connecting, refused(), false),
        (State::Connecting, unauthorized(), false),
        (State::Restarting, refused(), false),
        (State::Ready, unauthorized(), false),
        (State::Ready, Exited, true),
        (State::Ready, Disabled, true),
    ] {
        let server = Server { proven: state != State::Connecting || !proven, ..server_in(state) };
        assert_eq!(step(&server, &event, &policy, 1_000).server.proven, proven, "{event:?} in {state:?}");
    }
}

/// A server that is held (unless it sleeps) and has got to the state in the usual way, 1 s ago.
fn server_in(state: State) -> Server {
    Server {
        state,
        users: u32::from(state != State::Dormant),
        restarts: match state {
            State::Restarting => 1,
            State::Failed => 2,
            _ => 0,
        },
        attempting: matches!(state, State::Connecting | State::Restarting),
        retry_at_ms: (state == State::Failed).then_some(2_000),
        probe_at_ms: (state == State::Ready).then_some(15_000),
        ..Server::new(true)
    }
}

/// All states.
pub const STATES: [State; 8] = [
    State::Disabled,
    State::Dormant,
    State::Connecting,
    State::Ready,
    State::Degraded,
    State::Restarting,
    State::Failed,
    State::NeedsAuth,
];

/// All events, failures of both sorts among them.
pub fn events() -> [Event; 13] {
    [
        Enabled,
        Disabled,
        Wanted,
        Released,
        Connected,
        refused(),
        unauthorized(),
        Exited,
        ProbeOk,
        ProbeFailed,
        CallTimedOut,
        Authenticated,
        Tick,
    ]
}
