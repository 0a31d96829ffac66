//! The keys that seal what clients hold for the gateway: sessions of the initialize era, and questions for approval.
//!
//! All replicas of a gateway have the same keys, so each reads what another has sealed. Keys are derived when they are
//! configured, never per request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

use crate::config::resolve::SessionKey;

/// The keys of a gateway, the first of which seals.
pub(super) struct SealingKeys(Vec<SealingKey>);

/// A key of a gateway.
pub(super) struct SealingKey {
    /// Says which key has sealed something.
    pub(super) id: KeyId,
    /// Distinguishes states that gateways with this key have sealed from those of other gateways.
    pub(super) name: String,
    aead: LessSafeKey,
    hmac: hmac::Key,
}

/// The first bytes of everything that a key has sealed.
pub(super) type KeyId = [u8; 4];

impl SealingKeys {
    /// Derives the configured keys; without any, draws one, which no other process has.
    pub(super) fn new(configured: &[SessionKey]) -> Self {
        if !configured.is_empty() {
            return SealingKeys(configured.iter().map(|key| SealingKey::derive(key.0.as_bytes())).collect());
        }
        // Without random numbers there is no key, and nothing is sealed or accepted.
        SealingKeys(random::<32>().map(|key| SealingKey::derive(&key)).into_iter().collect())
    }

    /// Seals a text, and returns it in characters that a header can carry.
    pub(super) fn seal(&self, text: &[u8]) -> Option<String> {
        let key = self.first()?;
        let nonce = random::<NONCE_LEN>()?;
        let mut sealed = text.to_vec();
        key.aead.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(key.id), &mut sealed).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&key.id[..], &nonce, &sealed].concat()))
    }

    /// Returns a text that one of the keys has sealed, and which of them.
    pub(super) fn open(&self, sealed: &[u8]) -> Option<(Vec<u8>, KeyId)> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (id, rest) = bytes.split_first_chunk()?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.0.iter().find(|key| key.id == *id)?;
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.aead.open_in_place(nonce, Aad::from(*id), &mut text).ok()?.len();
        text.truncate(length);
        Some((text, *id))
    }

    /// Returns the key that seals, unless there were no random numbers.
    pub(super) fn first(&self) -> Option<&SealingKey> {
        self.0.first()
    }

    /// Returns all keys.
    pub(super) fn all(&self) -> impl Iterator<Item = &SealingKey> {
        self.0.iter()
    }

    /// Reports whether this is one of the keys.
    pub(super) fn has(&self, id: KeyId) -> bool {
        self.0.iter().any(|key| key.id == id)
    }
}

impl SealingKey {
    fn derive(key: &[u8]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, key);
        let derived = |purpose: &str| hmac::sign(&root, format!("toolgate {purpose}").as_bytes());
        let id = derived("id").as_ref().first_chunk().copied().expect("the digest has 32 bytes");
        let aead = UnboundKey::new(&AES_256_GCM, derived("session").as_ref()).expect("the digest has 32 bytes");
        SealingKey {
            id,
            name: URL_SAFE_NO_PAD.encode(&derived("name").as_ref()[..9]),
            aead: LessSafeKey::new(aead),
            hmac: hmac::Key::new(hmac::HMAC_SHA256, derived("approval").as_ref()),
        }
    }

    /// Starts an authentication tag by this key.
    pub(super) fn tag(&self) -> hmac::Context {
        hmac::Context::with_key(&self.hmac)
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
