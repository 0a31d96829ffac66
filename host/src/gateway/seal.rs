//! Seals the state of a call that waits for an approval: a client without a session holds it and returns it unchanged.
//!
//! Each state belongs to one round of one call and can be used once; used states are remembered until they expire. Keys
//! and used states belong to one process, so states of other processes are not accepted.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq;

use crate::lock::lock;

/// Seals and verifies states with the key of this process.
pub(crate) struct StateSealer {
    /// `None` if no random numbers were available; then no state is accepted.
    key: Option<[u8; 32]>,
    /// Distinguishes this process from others, such as a gateway behind this one, whose states are passed through.
    pub(super) name: String,
    since: Instant,
    /// The number of the next state.
    next: AtomicU64,
    /// The used states, by principal.
    spent: Mutex<HashMap<String, SpentStates>>,
}

/// The used states of one principal that have not expired.
#[derive(Default)]
struct SpentStates {
    /// Their numbers and expiry times, in the order of use.
    states: VecDeque<(u64, u64)>,
    /// If more were used than are remembered: states that expire at or before this second count as used.
    forgotten: Option<u64>,
}

/// How far the approval of a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalStage {
    /// A person was asked for approval.
    Asked,
    /// A person approved the call.
    Approved,
}

/// The call that a state belongs to; the state is not valid for any other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SealedCall {
    pub(super) principal: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) arguments: String,
    /// The version of the rules that it was decided by.
    pub(super) rules: RulesVersion,
}

/// The version of the rules: that of the configuration, and that of the gateway's options.
pub(super) type RulesVersion = (u64, u64);

/// A state that a client returned.
#[derive(Debug)]
pub(super) struct SealedState {
    pub(super) stage: ApprovalStage,
    /// The server's own state inside it.
    pub(super) inner: Option<Box<RawValue>>,
    number: u64,
    until: u64,
    tag: Vec<u8>,
}

impl StateSealer {
    pub(super) fn new() -> Self {
        let (mut key, mut name) = ([0; 32], [0; 9]);
        let random = rustls::crypto::ring::default_provider().secure_random;
        let drawn = random.fill(&mut key).and_then(|()| random.fill(&mut name));
        StateSealer {
            key: drawn.is_ok().then_some(key),
            name: URL_SAFE_NO_PAD.encode(name),
            since: Instant::now(),
            next: AtomicU64::new(0),
            spent: Mutex::default(),
        }
    }

    /// Seals a state for a call, with the server's own state inside.
    pub(super) fn seal(&self, stage: ApprovalStage, subject: &SealedCall, inner: Option<&RawValue>) -> Option<String> {
        let until = (self.since.elapsed() + LAPSE).as_secs();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let tag = URL_SAFE_NO_PAD.encode(self.tag(stage, (number, until), subject, inner)?);
        let inner = URL_SAFE_NO_PAD.encode(inner.map_or("", RawValue::get));
        Some(format!("{MARK}{}/{}/{number}/{until}/{tag}/{inner}", self.name, stage.name()))
    }

    /// Parses a state in the form of this process, without verifying it.
    pub(super) fn read(&self, state: &str) -> Option<SealedState> {
        let text: String = serde_json::from_str(state).ok()?;
        let mut parts = text.strip_prefix(MARK)?.strip_prefix(&self.name)?.strip_prefix('/')?.split('/');
        let stage = parts.next()?;
        let stage = [ApprovalStage::Asked, ApprovalStage::Approved].into_iter().find(|known| known.name() == stage)?;
        let number = parts.next()?.parse().ok()?;
        let until = parts.next()?.parse().ok()?;
        let tag = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let inner = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let inner = Some(inner).filter(|inner| !inner.is_empty());
        let inner = inner.map(RawValue::from_string).transpose().ok()?;
        parts.next().is_none().then_some(SealedState { stage, inner, number, until, tag })
    }

    /// Reports whether this process sealed the state for this call and it has not expired.
    pub(super) fn verify(&self, sealed: &SealedState, subject: &SealedCall) -> bool {
        let tag = self.tag(sealed.stage, (sealed.number, sealed.until), subject, sealed.inner.as_deref());
        let same = tag.is_some_and(|tag| bool::from(tag[..].ct_eq(&sealed.tag[..])));
        same && self.since.elapsed().as_secs() <= sealed.until
    }

    /// Uses a verified state; returns false if it was used before.
    pub(super) fn spend(&self, sealed: &SealedState, principal: &str) -> bool {
        let now = self.since.elapsed().as_secs();
        let mut used = lock(&self.spent);
        let SpentStates { states, forgotten } = used.entry(principal.to_owned()).or_default();
        if forgotten.is_some_and(|second| sealed.until <= second) {
            return false;
        }
        states.retain(|(_, until)| *until >= now);
        if states.iter().any(|(number, _)| *number == sealed.number) {
            return false;
        }
        if states.len() == MOST_USED
            && let Some((_, until)) = states.pop_front()
        {
            *forgotten = (*forgotten).max(Some(until));
        }
        states.push_back((sealed.number, sealed.until));
        true
    }

    /// Computes the authentication tag of a state (HMAC-SHA256).
    fn tag(
        &self,
        stage: ApprovalStage,
        (number, until): (u64, u64),
        subject: &SealedCall,
        inner: Option<&RawValue>,
    ) -> Option<[u8; 32]> {
        let mut tag = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.key?));
        let SealedCall { principal, server, tool, arguments, rules } = subject;
        let numbers = [number, until, rules.0, rules.1].map(u64::to_be_bytes);
        let texts = [stage.name(), principal, server, tool, arguments, inner.map_or("", RawValue::get)];
        for part in texts.iter().map(|text| text.as_bytes()).chain([numbers.as_flattened()]) {
            // With its length, so that different calls cannot have the same input.
            tag.update(&(part.len() as u64).to_be_bytes());
            tag.update(part);
        }
        tag.sign().as_ref().try_into().ok()
    }
}

impl ApprovalStage {
    fn name(self) -> &'static str {
        match self {
            ApprovalStage::Asked => "asked",
            ApprovalStage::Approved => "approved",
        }
    }
}

/// The prefix of sealed states.
const MARK: &str = "toolgate/";
/// How long a question can be answered, and how long an approval is valid.
const LAPSE: Duration = Duration::from_secs(600);
/// The maximum number of remembered used states of one principal. If more are used within [`LAPSE`], the principal's
/// oldest open questions expire and are asked again.
const MOST_USED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(arguments: &str) -> SealedCall {
        let [principal, server, tool] = ["ann", "k8s", "delete"].map(str::to_owned);
        SealedCall { principal, server, tool, arguments: arguments.to_owned(), rules: (1, 1) }
    }

    fn read(seal: &StateSealer, state: &str) -> Option<SealedState> {
        seal.read(&serde_json::to_string(state).unwrap())
    }

    #[test]
    fn a_state_is_known_again_with_what_is_in_it_and_for_its_call_alone() {
        let (seal, other) = (StateSealer::new(), StateSealer::new());
        let inner = RawValue::from_string(r#""\u00e9 {\"a\":1}""#.to_owned()).unwrap();
        for inner in [None, Some(&*inner)] {
            let state = seal.seal(ApprovalStage::Approved, &subject("{}"), inner).unwrap();
            let read = || read(&seal, &state).expect("it is of our form");
            let sealed = read();
            assert_eq!(
                (sealed.stage, sealed.inner.as_deref().map(RawValue::get)),
                (ApprovalStage::Approved, inner.map(RawValue::get))
            );
            assert!(seal.verify(&sealed, &subject("{}")));
            assert!(!seal.verify(&sealed, &subject(r#"{"a":1}"#)), "other arguments");
            assert!(
                !seal.verify(&sealed, &SealedCall { principal: "bob".to_owned(), ..subject("{}") }),
                "somebody else"
            );
            assert!(
                !seal.verify(
                    &sealed,
                    &SealedCall { server: "k8sd".to_owned(), tool: "elete".to_owned(), ..subject("{}") }
                )
            );
            for rules in [(2, 1), (1, 2)] {
                assert!(!seal.verify(&sealed, &SealedCall { rules, ..subject("{}") }), "other rules");
            }
            assert!(!other.verify(&sealed, &subject("{}")), "another process");
            assert!(other.read(&serde_json::to_string(&state).unwrap()).is_none(), "another process's passes as it is");
            assert!(!seal.verify(&SealedState { until: sealed.until + 1, ..read() }, &subject("{}")), "a longer time");
            assert!(
                !seal.verify(&SealedState { number: sealed.number + 1, ..read() }, &subject("{}")),
                "another question"
            );
            assert!(
                !seal.verify(&SealedState { stage: ApprovalStage::Asked, ..read() }, &subject("{}")),
                "another stage"
            );
        }
        let since = seal.since.checked_sub(LAPSE * 2).expect("the clock has begun");
        let late = StateSealer { key: seal.key, name: seal.name.clone(), since, ..StateSealer::new() };
        let sealed = read(&seal, &seal.seal(ApprovalStage::Asked, &subject("{}"), None).unwrap()).unwrap();
        assert!(seal.verify(&sealed, &subject("{}")) && !late.verify(&sealed, &subject("{}")), "it lapses");
        assert!(seal.read("7").is_none());
        let name = &seal.name;
        for rest in [
            "asked/1/1/AA/",
            &format!("{name}/asked"),
            &format!("{name}/asked/1/1/AA/!"),
            &format!("{name}x/asked/1/1/AA/"),
        ] {
            assert!(read(&seal, &format!("toolgate/{rest}")).is_none(), "{rest}");
        }
        assert!(read(&seal, &format!("toolgate/{name}/asked/1/1/AA//")).is_none() && read(&seal, "x").is_none());
    }

    #[test]
    fn a_state_is_used_once_however_many_others_are() {
        let seal = StateSealer::new();
        let state = || read(&seal, &seal.seal(ApprovalStage::Asked, &subject("{}"), None).unwrap()).unwrap();
        let (first, others) = (state(), state());
        assert!(seal.spend(&first, "ann") && !seal.spend(&first, "ann"));
        assert!(seal.spend(&others, "bob"), "what one principal uses is nothing to another");
        for _ in 0..MOST_USED {
            let mut next = state();
            next.until = first.until + 1;
            assert!(seal.spend(&next, "ann"));
        }
        assert!(!seal.spend(&first, "ann"), "what was forgotten counts as used");
        assert!(seal.spend(&state(), "bob"));
        assert!(seal.spent.lock().unwrap()["ann"].states.len() <= MOST_USED);
    }
}
