//! Seals the state of a call that waits for an approval: a client without a session holds it and returns it unchanged.
//!
//! Each state belongs to one round of one call and can be used once. Used states are remembered until they expire: by this
//! process, and by the store if replicas share one. A state is void once the store has lost what was used.
//!
//! Clocks may jump, so a state also says how long its replica had been running. That replica goes by this time too, and what
//! it once found expired stays so.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq;
use tracing::warn;

use super::peer_seal::UnsentMessage;
use super::replica::{Replica, ReplicaId};
use super::sealing_keys::{SealingKey, random};
use crate::agent::clock_ms;
use crate::lock::lock;
use crate::sha256::hex;
use crate::store::StoreError;

/// Seals and verifies states with the keys of the gateway.
pub(crate) struct StateSealer {
    replica: Arc<Replica>,
    /// The used states, by principal.
    spent: Mutex<HashMap<String, SpentStates>>,
    /// Whether a state of an older version was reported.
    has_reported_older: AtomicBool,
}

/// The used states of one principal that have not expired.
#[derive(Default)]
struct SpentStates {
    /// In the order of use.
    states: VecDeque<SpentState>,
    /// If more were used than are remembered: states that expire at or before this second count as used.
    forgotten: Option<u64>,
}

/// A used state.
struct SpentState {
    number: String,
    /// When it expires, in seconds since 1970.
    until: u64,
    /// When it was used. It is remembered by this clock, which does not jump.
    at: Instant,
}

/// What a state says about how it was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SealedIn {
    /// The mark of the epoch of the store; empty without a store that replicas share.
    epoch: String,
    replica: ReplicaId,
    /// How long that replica had been running.
    clock_ms: u64,
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
    /// The members of `_meta` that the person sees too, as one JSON object, if there are any.
    pub(super) meta: Option<String>,
    /// The rules that it was decided by.
    pub(super) rules: RulesDigest,
}

/// A digest of the rules in force, which is the same for replicas with the same rules.
pub(super) type RulesDigest = [u8; 32];

/// A state that a client returned.
#[derive(Debug)]
pub(super) struct SealedState {
    /// The name of the key that sealed it.
    pub(super) key: String,
    pub(super) stage: ApprovalStage,
    /// The server's own state inside it.
    pub(super) inner: Option<Box<RawValue>>,
    /// A random number and, after points, what `SealedIn` says.
    number: String,
    until: u64,
    tag: Vec<u8>,
}

impl StateSealer {
    pub(super) fn new(replica: Arc<Replica>) -> Self {
        StateSealer { replica, spent: Mutex::default(), has_reported_older: AtomicBool::new(false) }
    }

    /// Returns the name of the key that seals now; it distinguishes this gateway from others, such as one behind it.
    pub(super) fn name(&self) -> String {
        self.replica.keys().first().map(|key| key.name.clone()).unwrap_or_default()
    }

    /// Seals a state for a call, with the server's own state inside.
    pub(super) fn seal(&self, stage: ApprovalStage, subject: &SealedCall, inner: Option<&RawValue>) -> Option<String> {
        let keys = self.replica.keys();
        let key = keys.first()?;
        let Replica { id, store, .. } = &*self.replica;
        let number = format!("{}.{}.{id}.{}", hex(&random::<16>()?), store.epoch_mark(), clock_ms());
        let until = now() + LAPSE.as_secs();
        let tag = URL_SAFE_NO_PAD.encode(tag(key, stage, (&number, until), subject, inner));
        let inner = URL_SAFE_NO_PAD.encode(inner.map_or("", RawValue::get));
        Some(format!("{MARK}{}/{}/{number}/{until}/{tag}/{inner}", key.name, stage.name()))
    }

    /// Parses a state in the form of this gateway, without verifying it.
    pub(super) fn read(&self, state: &str) -> Option<SealedState> {
        let text: String = serde_json::from_str(state).ok()?;
        let mut parts = text.strip_prefix(MARK)?.split('/');
        let name = parts.next()?;
        let key = self.replica.keys().all().find(|key| key.name == name)?.name.clone();
        let stage = parts.next()?;
        let stage = [ApprovalStage::Asked, ApprovalStage::Approved].into_iter().find(|known| known.name() == stage)?;
        let number = parts.next()?.to_owned();
        let until = parts.next()?.parse().ok()?;
        let tag = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let inner = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let inner = Some(inner).filter(|inner| !inner.is_empty());
        let inner = inner.map(RawValue::from_string).transpose().ok()?;
        parts.next().is_none().then_some(SealedState { key, stage, inner, number, until, tag })
    }

    /// Reports whether another replica may have sealed this state that no key here has sealed: one that shares the store,
    /// but not the keys.
    pub(super) fn is_of_another_replica(&self, state: &str) -> bool {
        if !matches!(self.replica.cannot_tell(), Some(UnsentMessage::NoKeys)) {
            return false;
        }
        let Ok(text) = serde_json::from_str::<String>(state) else { return false };
        let number = text.strip_prefix(MARK).and_then(|parts| parts.split('/').nth(2));
        let sealed_in = number.and_then(SealedIn::read);
        sealed_in.is_some_and(|sealed_in| sealed_in.replica != self.replica.id && self.is_of_this_epoch(&sealed_in))
    }

    /// Reports whether this gateway sealed the state for this call and it has not expired.
    pub(super) fn verify(&self, sealed: &SealedState, subject: &SealedCall) -> bool {
        self.verify_at(now(), clock_ms(), sealed, subject)
    }

    fn verify_at(&self, now: u64, clock_ms: u64, sealed: &SealedState, subject: &SealedCall) -> bool {
        let keys = self.replica.keys();
        let Some(key) = keys.all().find(|key| key.name == sealed.key) else { return false };
        let Some(sealed_in) = SealedIn::read(&sealed.number) else {
            if !self.has_reported_older.swap(true, Relaxed) {
                warn!(
                    "approvals that an older version of toolgate sealed do not count; their calls are asked about again"
                );
            }
            return false;
        };
        let tag = tag(key, sealed.stage, (&sealed.number, sealed.until), subject, sealed.inner.as_deref());
        if !bool::from(tag[..].ct_eq(&sealed.tag[..])) {
            return false;
        }
        if sealed.has_expired(now) || self.has_lapsed(&sealed_in, clock_ms) {
            // It stays expired, also if the clock is put back.
            self.spend_here(sealed, &subject.principal);
            return false;
        }
        self.is_of_this_epoch(&sealed_in)
    }

    /// Reports whether a state that this replica sealed has lapsed, by the time that it has been running.
    fn has_lapsed(&self, sealed_in: &SealedIn, clock_ms: u64) -> bool {
        let age = Duration::from_millis(clock_ms.saturating_sub(sealed_in.clock_ms));
        sealed_in.replica == self.replica.id && age > LAPSE
    }

    /// Reports whether the store has lost nothing since the state was sealed, as far as this replica knows.
    fn is_of_this_epoch(&self, sealed_in: &SealedIn) -> bool {
        sealed_in.epoch == self.replica.store.epoch_mark()
    }

    /// Uses a verified state; returns false if it was used before, as far as the store or this process knows, or if the
    /// store has lost which ones were.
    pub(super) async fn spend(&self, sealed: &SealedState, principal: &str) -> Result<bool, StoreError> {
        let store = &self.replica.store;
        if store.is_shared() {
            let Some(sealed_in) = SealedIn::read(&sealed.number) else { return Ok(false) };
            // Longer than the state is valid, because clocks may differ a little.
            if !store.spend(&sealed.number, &sealed_in.epoch, LAPSE * 2).await? {
                return Ok(false);
            }
        }
        Ok(self.spend_here(sealed, principal))
    }

    /// Uses a verified state; returns false if it was used before in this process.
    pub(super) fn spend_here(&self, sealed: &SealedState, principal: &str) -> bool {
        self.spend_at(Instant::now(), sealed, principal)
    }

    fn spend_at(&self, now: Instant, sealed: &SealedState, principal: &str) -> bool {
        let mut used = lock(&self.spent);
        let SpentStates { states, forgotten } = used.entry(principal.to_owned()).or_default();
        if forgotten.is_some_and(|second| sealed.until <= second) {
            return false;
        }
        states.retain(|spent| now.saturating_duration_since(spent.at) <= LAPSE * 2);
        if states.iter().any(|spent| spent.number == sealed.number) {
            return false;
        }
        if states.len() == MOST_USED
            && let Some(SpentState { until, .. }) = states.pop_front()
        {
            *forgotten = (*forgotten).max(Some(until));
        }
        states.push_back(SpentState { number: sealed.number.clone(), until: sealed.until, at: now });
        true
    }
}

impl SealedState {
    /// Reports whether the state has expired, or was sealed by a clock that is far ahead.
    fn has_expired(&self, now: u64) -> bool {
        now > self.until || self.until > now + (LAPSE + CLOCK_SKEW).as_secs()
    }
}

impl SealedIn {
    /// Reads it from the number of a state; states of older versions have none.
    fn read(number: &str) -> Option<Self> {
        let mut parts = number.split('.').skip(1);
        let (epoch, replica, clock) = (parts.next()?, parts.next()?, parts.next()?);
        let sealed_in =
            SealedIn { epoch: epoch.to_owned(), replica: replica.parse().ok()?, clock_ms: clock.parse().ok()? };
        parts.next().is_none().then_some(sealed_in)
    }
}

/// Computes the authentication tag of a state (HMAC-SHA256).
fn tag(
    key: &SealingKey,
    stage: ApprovalStage,
    (number, until): (&str, u64),
    subject: &SealedCall,
    inner: Option<&RawValue>,
) -> [u8; 32] {
    let mut tag = key.tag();
    let SealedCall { principal, server, tool, arguments, meta, rules } = subject;
    let texts = [stage.name(), number, principal, server, tool, arguments, inner.map_or("", RawValue::get)];
    let texts = texts.iter().map(|text| text.as_bytes());
    // Only if there is one, so that states from before it was sealed stay valid.
    let meta = meta.iter().map(String::as_bytes);
    for part in texts.chain([&until.to_be_bytes()[..], rules]).chain(meta) {
        // With its length, so that different calls cannot have the same input.
        tag.update(&(part.len() as u64).to_be_bytes());
        tag.update(part);
    }
    tag.sign().as_ref().try_into().expect("the digest has 32 bytes")
}

/// Returns the seconds since 1970, by which replicas agree on when a state expires.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
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
/// How far the clocks of replicas may differ.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// The maximum number of remembered used states of one principal. If more are used within [`LAPSE`], the principal's
/// oldest open questions expire and are asked again.
const MOST_USED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve::SessionKey;
    use crate::store::Store;

    fn sealer(keys: &[&str]) -> StateSealer {
        let keys: Vec<_> = keys.iter().map(|&key| SessionKey(key.to_owned())).collect();
        StateSealer::new(Replica::new(&keys, Store::memory()))
    }

    fn subject(arguments: &str) -> SealedCall {
        let [principal, server, tool] = ["ann", "k8s", "delete"].map(str::to_owned);
        SealedCall { principal, server, tool, arguments: arguments.to_owned(), meta: None, rules: [1; 32] }
    }

    fn read(seal: &StateSealer, state: &str) -> Option<SealedState> {
        seal.read(&serde_json::to_string(state).unwrap())
    }

    #[test]
    fn a_state_is_known_again_with_what_is_in_it_and_for_its_call_alone() {
        let (seal, other) = (sealer(&[]), sealer(&[]));
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
            let changed = [
                ("other arguments", subject(r#"{"a":1}"#)),
                ("somebody else", SealedCall { principal: "bob".to_owned(), ..subject("{}") }),
                ("another tool", SealedCall { server: "k8sd".to_owned(), tool: "elete".to_owned(), ..subject("{}") }),
                ("other rules", SealedCall { rules: [2; 32], ..subject("{}") }),
                ("with _meta", SealedCall { meta: Some("{}".to_owned()), ..subject("{}") }),
            ];
            for (what, subject) in changed {
                assert!(!seal.verify(&sealed, &subject), "{what}");
            }
            assert!(!other.verify(&sealed, &subject("{}")), "another gateway");
            assert!(other.read(&serde_json::to_string(&state).unwrap()).is_none(), "another gateway's passes as it is");
            let changed = [
                ("a longer time", SealedState { until: sealed.until + 1, ..read() }),
                ("another question", SealedState { number: "0".repeat(32), ..read() }),
                ("another stage", SealedState { stage: ApprovalStage::Asked, ..read() }),
            ];
            for (what, sealed) in changed {
                assert!(!seal.verify(&sealed, &subject("{}")), "{what}");
            }
            let [issued, ours] = [sealed.until - LAPSE.as_secs(), clock_ms()];
            let late = ours + u64::try_from(LAPSE.as_millis()).unwrap() + 1;
            assert!(!sealer(&["k"]).verify_at(issued, ours, &sealed, &subject("{}")), "another gateway");
            for (what, now, clock_ms) in [
                ("it expires", sealed.until + 1, ours),
                ("it expires although the clock was put back", issued, late),
                ("its time comes later than it can", issued - CLOCK_SKEW.as_secs() - 1, ours),
            ] {
                let state = seal.seal(ApprovalStage::Approved, &subject("{}"), inner).unwrap();
                let sealed = self::read(&seal, &state).unwrap();
                assert!(!seal.verify_at(now, clock_ms, &sealed, &subject("{}")), "{what}");
                assert!(!seal.spend_here(&sealed, "ann"), "{what}, and stays so");
            }
            assert!(seal.verify_at(issued - CLOCK_SKEW.as_secs(), ours, &sealed, &subject("{}")));
        }
        assert!(seal.read("7").is_none());
        let name = seal.name();
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
    fn replicas_with_a_common_key_accept_each_others_states() {
        let (old, new) = (sealer(&["old"]), sealer(&["new", "old"]));
        for (seals, verifies, accepted) in [(&old, &new, true), (&new, &old, false), (&new, &new, true)] {
            let state = seals.seal(ApprovalStage::Asked, &subject("{}"), None).unwrap();
            let verified = read(verifies, &state).is_some_and(|sealed| verifies.verify(&sealed, &subject("{}")));
            assert_eq!(verified, accepted);
        }
    }

    #[test]
    fn a_state_of_an_older_version_is_ours_and_does_not_count() {
        let seal = sealer(&["a key of 0.1"]);
        let number = "0".repeat(32);
        let until = now() + 60;
        let keys = seal.replica.keys();
        let key = keys.first().unwrap();
        let tag = URL_SAFE_NO_PAD.encode(tag(key, ApprovalStage::Approved, (&number, until), &subject("{}"), None));
        let sealed = read(&seal, &format!("{MARK}{}/approved/{number}/{until}/{tag}/", key.name)).unwrap();
        assert!(!seal.verify(&sealed, &subject("{}")), "it has no epoch");
        assert_eq!(seal.name(), "-vyhC-ay-YNZ", "the name of a key stays, so that older states are known as ours");
    }

    #[test]
    fn clocks_that_jump_do_not_revive_a_used_state() {
        let seal = sealer(&[]);
        let state = read(&seal, &seal.seal(ApprovalStage::Asked, &subject("{}"), None).unwrap()).unwrap();
        let used_at = Instant::now();
        assert!(seal.spend_at(used_at, &state, "ann"));
        // The wall clock jumps forward by years and back again; the process has been running for a moment longer.
        let other = SealedState { until: state.until + 1_000_000_000, number: "x".to_owned(), ..state };
        assert!(seal.spend_at(used_at + LAPSE * 2, &other, "ann"));
        let state = SealedState { number: lock(&seal.spent)["ann"].states[0].number.clone(), ..other };
        assert!(!seal.spend_at(used_at + LAPSE * 2, &state, "ann"));
    }

    #[test]
    fn a_state_is_used_once_however_many_others_are() {
        let seal = sealer(&[]);
        let state = || read(&seal, &seal.seal(ApprovalStage::Asked, &subject("{}"), None).unwrap()).unwrap();
        let (first, others) = (state(), state());
        let spend = |sealed: &SealedState, principal: &str| seal.spend_here(sealed, principal);
        assert!(spend(&first, "ann") && !spend(&first, "ann"));
        assert!(spend(&others, "bob"), "what one principal uses is nothing to another");
        for number in 0..MOST_USED {
            let next = SealedState { until: first.until + 1, number: number.to_string(), ..state() };
            assert!(spend(&next, "ann"));
        }
        assert!(!spend(&first, "ann"), "what was forgotten counts as used");
        assert!(spend(&state(), "bob"));
        assert!(seal.spent.lock().unwrap()["ann"].states.len() <= MOST_USED);
    }
}
