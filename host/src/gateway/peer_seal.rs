//! Seals what replicas tell each other through their store, so that nobody who can write to the store speaks for a replica.
//!
//! A message says who sent it, for whom and when, and has a number. It counts once, for its receiver, within a short time.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use super::peer_message::PeerMessage;
use super::replica::{Replica, ReplicaId};
use super::sealing_keys::random;
use crate::lock::lock;
use crate::sha256::hex;
use crate::store::StoreError;

/// What a replica remembers in order to judge messages of others.
#[derive(Default)]
pub(super) struct PeerSeal {
    seen: Mutex<SeenNumbers>,
    /// When this replica last began to listen, in seconds since 1970.
    listening_since: AtomicU64,
    /// The reasons for refusals that were logged already.
    reported: Mutex<HashSet<RefusedMessage>>,
}

/// The numbers of messages that counted, for as long as their time alone would let them count again.
#[derive(Default)]
struct SeenNumbers {
    numbers: HashSet<String>,
    /// The numbers in the order of their arrival.
    order: VecDeque<(Instant, String)>,
}

/// What is sealed: a message, and all that it is bound to.
#[derive(Serialize, Deserialize)]
struct Envelope {
    /// The replica that it is for; `None` means all others.
    to: Option<String>,
    from: String,
    number: String,
    /// When it was sent, in seconds since 1970.
    at: u64,
    message: PeerMessage,
}

/// The reason why a message from the store does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum RefusedMessage {
    /// No key of this replica sealed it.
    #[error("it is not sealed with one of our gateway.session_keys; an older version of toolgate seals none")]
    NotSealed,
    /// It is for another replica.
    #[error("it is for another replica")]
    OtherReceiver,
    /// It is too old, or from the future.
    #[error("it was sent more than a minute ago, or ahead of time: compare the clocks of the replicas")]
    WrongTime,
    /// It is from before this replica listened, so it was held back.
    #[error("it was sent before this replica listened, and held back since: compare the clocks of the replicas")]
    HeldBack,
    /// It came before.
    #[error("it was sent again")]
    Repeated,
    /// More messages came than can be remembered.
    #[error("too many messages came at once")]
    TooMany,
}

/// The reason why a replica tells the others nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnsentMessage {
    /// There are no others.
    #[error("replicas need a common gateway.store and common gateway.session_keys for this")]
    NoStore,
    /// The others have other keys.
    #[error("replicas need common gateway.session_keys for this")]
    NoKeys,
    /// No replica listens.
    #[error("it is gone")]
    Unheard,
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Replica {
    /// Returns why other replicas cannot be told anything; `None` if they can be.
    pub(super) fn cannot_tell(&self) -> Option<UnsentMessage> {
        if !self.store.is_shared() {
            return Some(UnsentMessage::NoStore);
        }
        if !self.keys().are_configured() {
            return Some(UnsentMessage::NoKeys);
        }
        None
    }

    /// Sends a sealed message to one replica, or to all others with `None`. That none of all others listens is no error.
    pub(super) async fn tell(&self, to: Option<ReplicaId>, message: PeerMessage) -> Result<(), UnsentMessage> {
        if let Some(why) = self.cannot_tell() {
            return Err(why);
        }
        let to = to.map(|replica| replica.to_string());
        let sealed = self.seal_message(to.clone(), message, now()).ok_or(UnsentMessage::NoKeys)?;
        let was_heard = self.store.send(to.as_deref(), &sealed).await?;
        if to.is_some() && !was_heard {
            return Err(UnsentMessage::Unheard);
        }
        Ok(())
    }

    /// Notes that messages arrive from now on. What was sent before is missed; nobody may keep it and bring it later.
    pub(super) fn note_listening(&self) {
        self.note_listening_at(now());
    }

    fn note_listening_at(&self, now: u64) {
        self.peers.listening_since.store(now, Ordering::SeqCst);
    }

    /// Returns the message that another replica sent. One that does not count is logged, each reason once.
    pub(super) fn read_message(&self, text: &str) -> Option<PeerMessage> {
        match self.open_message(text, now(), Instant::now()) {
            Ok(message) => Some(message),
            Err(why) => {
                if lock(&self.peers.reported).insert(why) {
                    warn!("a message from the store does not count, nor do others like it: {why}");
                } else {
                    debug!("a message from the store does not count: {why}");
                }
                None
            }
        }
    }

    fn seal_message(&self, to: Option<String>, message: PeerMessage, at: u64) -> Option<String> {
        let number = hex(&random::<16>()?);
        let envelope = Envelope { to, from: self.id.to_string(), number, at, message };
        self.keys().seal_shared(PURPOSE, &serde_json::to_string(&envelope).ok()?)
    }

    fn open_message(&self, text: &str, now: u64, clock: Instant) -> Result<PeerMessage, RefusedMessage> {
        let opened = self.keys().open_shared(PURPOSE, text).ok_or(RefusedMessage::NotSealed)?;
        let envelope: Envelope = serde_json::from_str(&opened).map_err(|_| RefusedMessage::NotSealed)?;
        let own = self.id.to_string();
        if envelope.from == own || envelope.to.is_some_and(|to| to != own) {
            return Err(RefusedMessage::OtherReceiver);
        }
        if envelope.at.abs_diff(now) > MAX_MESSAGE_AGE.as_secs() {
            return Err(RefusedMessage::WrongTime);
        }
        let since = self.peers.listening_since.load(Ordering::SeqCst);
        if envelope.at.saturating_add(MAX_CLOCK_LAG.as_secs()) < since {
            return Err(RefusedMessage::HeldBack);
        }
        lock(&self.peers.seen).note(envelope.number, clock)?;
        Ok(envelope.message)
    }
}

impl UnsentMessage {
    /// Says that the answer to a question of another replica does not reach it.
    pub(super) fn of_answer(&self) -> String {
        format!(
            "this answer is for a question of another replica of the gateway, which does not get it: {self}; send the \
             request again"
        )
    }
}

impl SeenNumbers {
    /// Remembers a number; an error says why its message does not count.
    fn note(&mut self, number: String, now: Instant) -> Result<(), RefusedMessage> {
        // Twice its age, because it may have come from a clock that is ahead.
        while let Some((at, oldest)) = self.order.front()
            && now.saturating_duration_since(*at) > MAX_MESSAGE_AGE * 2
        {
            self.numbers.remove(oldest);
            self.order.pop_front();
        }
        if self.numbers.contains(&number) {
            return Err(RefusedMessage::Repeated);
        }
        if self.order.len() >= MAX_NUMBERS {
            return Err(RefusedMessage::TooMany);
        }
        self.order.push_back((now, number.clone()));
        self.numbers.insert(number);
        Ok(())
    }
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What the seal of a message is for.
const PURPOSE: &str = "message between replicas";
/// How old a message may be, and how far ahead the clock of its sender.
const MAX_MESSAGE_AGE: Duration = Duration::from_secs(60);
/// How far the clock of a sender may be behind that of a replica which has just begun to listen.
const MAX_CLOCK_LAG: Duration = Duration::from_secs(2);
/// How many numbers are remembered.
const MAX_NUMBERS: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::resolve::SessionKey;
    use crate::store::Store;

    fn replica(keys: &[&str]) -> Arc<Replica> {
        let keys: Vec<_> = keys.iter().map(|&key| SessionKey(key.to_owned())).collect();
        Replica::new(&keys, Store::memory())
    }

    fn message() -> PeerMessage {
        PeerMessage::Ended { session: "s".to_owned(), rest: u64::MAX }
    }

    #[test]
    fn a_message_that_was_held_back_while_nobody_listened_does_not_count_later() {
        let [one, other] = [&["k"][..], &["k"]].map(replica);
        let (at, clock) = (1_000_000, Instant::now());
        let early = one.seal_message(None, message(), at).unwrap();
        let late = one.seal_message(None, message(), at + 8).unwrap();
        other.note_listening_at(at + 10);
        assert_eq!(other.open_message(&early, at + 11, clock).err(), Some(RefusedMessage::HeldBack));
        assert!(other.open_message(&late, at + 11, clock).is_ok(), "its clock may be a little behind");
        assert_eq!(other.open_message(&early, at + 11, clock).err(), Some(RefusedMessage::HeldBack));
    }

    #[test]
    fn a_message_counts_once_for_its_receiver_in_its_time() {
        let [one, other, third] = [&["k"][..], &["n", "k"], &["k"]].map(replica);
        let (at, clock) = (1_000_000, Instant::now());
        let [to_all, to_other] = [None, Some(other.id.to_string())];
        let to_other = one.seal_message(to_other, message(), at).unwrap();
        let to_all = one.seal_message(to_all, message(), at).unwrap();
        let open = |replica: &Replica, text: &str, now: u64| replica.open_message(text, now, clock).map(drop);
        assert_eq!(open(&third, &to_other, at), Err(RefusedMessage::OtherReceiver));
        assert_eq!(open(&one, &to_all, at), Err(RefusedMessage::OtherReceiver), "it sent the message itself");
        for now in [at - 61, at + 61] {
            assert_eq!(open(&other, &to_other, now), Err(RefusedMessage::WrongTime));
        }
        for text in [&to_other, &to_all] {
            assert_eq!(open(&other, text, at + 60), Ok(()));
            assert_eq!(open(&other, text, at + 60), Err(RefusedMessage::Repeated));
        }
        assert_eq!(open(&third, &to_all, at), Ok(()), "each receiver counts for itself");
        let later = clock + MAX_MESSAGE_AGE * 2;
        assert_eq!(other.open_message(&to_all, at, later).err(), Some(RefusedMessage::Repeated));
    }

    #[test]
    fn what_no_common_key_sealed_does_not_count() {
        let (one, stranger, alone) = (replica(&["k"]), replica(&["x"]), replica(&[]));
        let plain = serde_json::to_string(&message()).unwrap();
        let session = one.keys().seal(plain.as_bytes()).unwrap();
        let foreign = stranger.seal_message(None, message(), now()).unwrap();
        let drawn = alone.seal_message(None, message(), now()).unwrap();
        for text in [&*plain, "", "{}", "x", &session, &foreign, &drawn] {
            assert!(one.read_message(text).is_none(), "{text}");
            assert!(alone.read_message(text).is_none(), "{text}");
        }
        assert_eq!(lock(&one.peers.reported).len(), 1, "each reason is logged once");
    }

    #[tokio::test]
    async fn without_a_store_or_keys_nobody_is_told_and_the_reason_says_what_is_missing() {
        let unsent = replica(&["k"]).tell(None, message()).await.unwrap_err().to_string();
        assert!(unsent.contains("gateway.store and common gateway.session_keys"), "{unsent}");
    }

    #[test]
    fn numbers_are_bounded_and_forgotten_once_their_time_is_over() {
        let (mut seen, now) = (SeenNumbers::default(), Instant::now());
        for number in 0..MAX_NUMBERS {
            seen.note(number.to_string(), now).unwrap();
        }
        assert_eq!(seen.note("one more".to_owned(), now), Err(RefusedMessage::TooMany));
        let later = now + MAX_MESSAGE_AGE * 2 + Duration::from_secs(1);
        assert_eq!(seen.note("one more".to_owned(), later), Ok(()));
        assert_eq!((seen.numbers.len(), seen.order.len()), (1, 1));
    }
}
