//! The keys that seal what clients hold for the gateway (sessions of the initialize era, and questions for approval), and
//! what replicas tell each other through their store.
//!
//! All replicas of a gateway have the same keys, so each reads what another has sealed. Keys are derived when they are
//! configured, never per request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

use crate::config::resolve::SessionKey;

/// The keys of a gateway, the first of which seals.
pub(super) struct SealingKeys {
    keys: Vec<SealingKey>,
    /// Whether other replicas may have them too.
    are_configured: bool,
}

/// A key of a gateway.
pub(super) struct SealingKey {
    /// Says which key has sealed something.
    pub(super) id: KeyId,
    /// Distinguishes states that gateways with this key have sealed from those of other gateways.
    pub(super) name: String,
    sessions: LessSafeKey,
    /// Seals what goes through the store, so that nothing of it passes for a session, and no session for it.
    shared: LessSafeKey,
    approvals: hmac::Key,
    /// Marks the sessions that have ended.
    endings: hmac::Key,
}

/// The first bytes of everything that a key has sealed.
pub(super) type KeyId = [u8; 4];

impl SealingKeys {
    /// Derives the configured keys; without any, draws one, which no other process has.
    pub(super) fn new(configured: &[SessionKey]) -> Self {
        if !configured.is_empty() {
            let keys = configured.iter().map(|key| SealingKey::derive(key.0.as_bytes())).collect();
            return SealingKeys { keys, are_configured: true };
        }
        // Without random numbers there is no key, and nothing is sealed or accepted.
        let keys = random::<32>().map(|key| SealingKey::derive(&key)).into_iter().collect();
        SealingKeys { keys, are_configured: false }
    }

    /// Reports whether the keys are configured, so that other replicas may have them too.
    pub(super) fn are_configured(&self) -> bool {
        self.are_configured
    }

    /// Seals a text, and returns it in characters that a header can carry.
    pub(super) fn seal(&self, text: &[u8]) -> Option<String> {
        let key = self.first()?;
        seal_with(&key.sessions, key.id, &[], text)
    }

    /// Returns a text that one of the keys has sealed, and which of them.
    pub(super) fn open(&self, sealed: &[u8]) -> Option<(Vec<u8>, KeyId)> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let key = self.sealer_of(&bytes)?;
        Some((open_with(&key.sessions, key.id, &[], &bytes)?, key.id))
    }

    /// Seals a text that goes through the store. It is opened with the same purpose alone.
    pub(super) fn seal_shared(&self, purpose: &str, text: &str) -> Option<String> {
        let key = self.first()?;
        seal_with(&key.shared, key.id, purpose.as_bytes(), text.as_bytes())
    }

    /// Returns a text that came through the store, if one of the keys sealed it for this purpose.
    pub(super) fn open_shared(&self, purpose: &str, sealed: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let key = self.sealer_of(&bytes)?;
        String::from_utf8(open_with(&key.shared, key.id, purpose.as_bytes(), &bytes)?).ok()
    }

    /// Returns the mark by which the store remembers that a session has ended: its name, and a proof that one of these
    /// keys ended it.
    pub(super) fn mark_ended(&self, session: &str) -> Option<String> {
        let tag = hmac::sign(&self.first()?.endings, session.as_bytes());
        Some(format!("{session}.{}", URL_SAFE_NO_PAD.encode(tag)))
    }

    /// Returns the name of the session that a mark of the store says has ended, if one of the keys made the mark.
    pub(super) fn ended_session<'a>(&self, mark: &'a str) -> Option<&'a str> {
        let (session, tag) = mark.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let is_ours = |key: &SealingKey| hmac::verify(&key.endings, session.as_bytes(), &tag).is_ok();
        self.keys.iter().any(is_ours).then_some(session)
    }

    /// Returns the key that seals, unless there were no random numbers.
    pub(super) fn first(&self) -> Option<&SealingKey> {
        self.keys.first()
    }

    /// Returns all keys.
    pub(super) fn all(&self) -> impl Iterator<Item = &SealingKey> {
        self.keys.iter()
    }

    /// Reports whether this is one of the keys.
    pub(super) fn has(&self, id: KeyId) -> bool {
        self.keys.iter().any(|key| key.id == id)
    }

    /// Returns the key that says it sealed these bytes.
    fn sealer_of(&self, sealed: &[u8]) -> Option<&SealingKey> {
        let id: &KeyId = sealed.first_chunk()?;
        self.keys.iter().find(|key| key.id == *id)
    }
}

/// Seals a text with a key, and returns it in characters that a header can carry. It is opened with the same purpose alone.
fn seal_with(key: &LessSafeKey, id: KeyId, purpose: &[u8], text: &[u8]) -> Option<String> {
    let nonce = random::<NONCE_LEN>()?;
    let mut sealed = text.to_vec();
    let bound = Aad::from([&id, purpose].concat());
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut sealed).ok()?;
    Some(URL_SAFE_NO_PAD.encode([&id[..], &nonce, &sealed].concat()))
}

/// Opens the bytes of a text that `seal_with` has sealed.
fn open_with(key: &LessSafeKey, id: KeyId, purpose: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.get(id.len()..)?.split_first_chunk::<NONCE_LEN>()?;
    let mut text = text.to_vec();
    let bound = Aad::from([&id, purpose].concat());
    let length = key.open_in_place(Nonce::assume_unique_for_key(*nonce), bound, &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

impl SealingKey {
    fn derive(key: &[u8]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, key);
        let derived = |purpose: &str| hmac::sign(&root, format!("toolgate {purpose}").as_bytes());
        let id = derived("id").as_ref().first_chunk().copied().expect("the digest has 32 bytes");
        let aead = |purpose: &str| {
            let key = UnboundKey::new(&AES_256_GCM, derived(purpose).as_ref()).expect("the digest has 32 bytes");
            LessSafeKey::new(key)
        };
        SealingKey {
            id,
            name: URL_SAFE_NO_PAD.encode(&derived("name").as_ref()[..9]),
            sessions: aead("session"),
            shared: aead("shared"),
            approvals: hmac::Key::new(hmac::HMAC_SHA256, derived("approval").as_ref()),
            endings: hmac::Key::new(hmac::HMAC_SHA256, derived("ending").as_ref()),
        }
    }

    /// Starts the authentication tag of an approval by this key.
    pub(super) fn tag(&self) -> hmac::Context {
        hmac::Context::with_key(&self.approvals)
    }
}

/// Draws random bytes, or returns `None` if there are none.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(texts: &[&str]) -> SealingKeys {
        SealingKeys::new(&texts.iter().map(|&text| SessionKey(text.to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn what_one_key_seals_is_opened_by_all_that_have_it_and_by_nobody_else() {
        let sealed = keys(&["one"]).seal(b"text").unwrap();
        for (known, expected) in
            [(&["one"][..], true), (&["two", "one"], true), (&["two"], false), (&["One"], false), (&[], false)]
        {
            let opened = keys(known).open(sealed.as_bytes());
            assert_eq!(opened.map(|(text, _)| text), expected.then(|| b"text".to_vec()), "{known:?}");
        }
        assert_ne!(keys(&["one"]).seal(b"text").unwrap(), sealed, "each has its own nonce");
        let (newer, _) = keys(&["two", "one"]).open(keys(&["two"]).seal(b"x").unwrap().as_bytes()).unwrap();
        assert_eq!(newer, b"x");
    }

    #[test]
    fn what_goes_through_the_store_is_opened_for_its_purpose_alone() {
        let (one, both, other) = (keys(&["one"]), keys(&["two", "one"]), keys(&["two"]));
        let sealed = one.seal_shared("a", "text").unwrap();
        for (keys, purpose, expected) in
            [(&one, "a", true), (&both, "a", true), (&one, "b", false), (&one, "", false), (&other, "a", false)]
        {
            let opened = keys.open_shared(purpose, &sealed);
            assert_eq!(opened.as_deref(), expected.then_some("text"), "{purpose:?}");
        }
        assert!(one.open(sealed.as_bytes()).is_none(), "it is no session");
        assert!(one.open_shared("", &one.seal(b"text").unwrap()).is_none(), "a session is none of it");
        assert!(one.are_configured() && !keys(&[]).are_configured());
    }

    #[test]
    fn the_end_of_a_session_is_believed_if_one_of_the_keys_marked_it() {
        let (one, both, other) = (keys(&["one"]), keys(&["two", "one"]), keys(&["two"]));
        let mark = one.mark_ended("a.b").unwrap();
        assert_eq!([&one, &both].map(|keys| keys.ended_session(&mark)), [Some("a.b"); 2]);
        let of_another = mark.replacen("a.b", "a.c", 1);
        for (keys, mark) in [(&other, &*mark), (&one, &*of_another), (&one, "a.b"), (&one, "a.b."), (&one, "")] {
            assert_eq!(keys.ended_session(mark), None, "{mark}");
        }
    }

    #[test]
    fn what_was_changed_is_not_opened() {
        let keys = keys(&["one"]);
        let sealed = keys.seal(b"some text").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(keys.open(&changed).is_none_or(|(text, _)| text == b"some text" && at == sealed.len() - 1), "{at}");
        }
        for text in ["", "AAAA", "!", &sealed[..20], &sealed[..sealed.len() - 2], &format!("{sealed}AA")] {
            assert!(keys.open(text.as_bytes()).is_none(), "{text}");
        }
    }
}
