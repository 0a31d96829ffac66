//! The id of a session of the initialize era. It is sealed and holds all that `initialize` fixed, so any replica can go
//! on with any session, and none keeps anything of a session that rests.
//!
//! An id authenticates nobody: every request shows the token of the principal that the session belongs to.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::gateway::client::Principal;
use crate::gateway::sealing_keys::{KeyId, SealingKeys};
use crate::gateway::session_terms::{CapabilityFlags, SessionTerms};
use crate::logic::types::filtering::SelectedServer;

/// A session, as its id says.
#[derive(Debug, Clone)]
pub(super) struct SealedSession {
    /// The id, as its header carries it.
    pub(super) header: HeaderValue,
    /// The name of the session, for the store, for rules and for servers.
    pub(super) name: String,
    pub(super) principal: Principal,
    pub(super) terms: SessionTerms,
    /// When the session ends, in seconds since 1970.
    pub(super) ends: u64,
    /// The key that sealed it.
    pub(super) key: KeyId,
}

/// What is sealed; short names, because an id has at most [`LONGEST`] bytes.
#[derive(Serialize, Deserialize)]
struct Content {
    #[serde(rename = "i")]
    name: String,
    #[serde(rename = "p")]
    principal: String,
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    admin: bool,
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "c")]
    capabilities: CapabilityFlags,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    client_name: Option<String>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    choice: Option<Vec<(String, Vec<String>)>>,
    #[serde(rename = "e")]
    ends: u64,
}

/// Why a session cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealError {
    /// The id would be too long.
    TooLong,
    /// There are no random numbers.
    NoRandom,
}

impl SealedSession {
    /// Seals a session that begins now.
    pub(super) fn seal(
        keys: &SealingKeys,
        name: &str,
        principal: &Principal,
        terms: SessionTerms,
    ) -> Result<Self, SealError> {
        let ends = now() + LIFETIME.as_secs();
        let key = keys.first().ok_or(SealError::NoRandom)?.id;
        let choice = terms
            .choice
            .as_ref()
            .map(|choice| choice.iter().map(|server| (server.id.clone(), server.tools.clone())).collect::<Vec<_>>());
        let content = Content {
            name: name.to_owned(),
            principal: principal.name.clone(),
            admin: principal.admin,
            version: terms.version.clone(),
            capabilities: terms.capabilities,
            client_name: terms.client_name.as_deref().map(str::to_owned),
            choice,
            ends,
        };
        let content = serde_json::to_vec(&content).map_err(|_| SealError::TooLong)?;
        let id = keys.seal(&content).ok_or(SealError::NoRandom)?;
        let header = HeaderValue::try_from(id).map_err(|_| SealError::TooLong)?;
        if header.len() > LONGEST {
            return Err(SealError::TooLong);
        }
        Ok(SealedSession { header, name: name.to_owned(), principal: principal.clone(), terms, ends, key })
    }

    /// Opens an id that one of the keys has sealed.
    pub(super) fn open(keys: &SealingKeys, header: &HeaderValue) -> Option<Self> {
        if header.len() > LONGEST {
            return None;
        }
        let (content, key) = keys.open(header.as_bytes())?;
        let Content { name, principal, admin, version, capabilities, client_name, choice, ends } =
            serde_json::from_slice(&content).ok()?;
        let selected = |(id, tools)| SelectedServer { id, tools };
        let choice = choice.map(|choice| choice.into_iter().map(selected).collect());
        let terms = SessionTerms { version, capabilities, client_name: client_name.map(Into::into), choice };
        let principal = Principal { name: principal, admin };
        Some(SealedSession { header: header.clone(), name, principal, terms, ends, key })
    }

    /// Reports whether the session has ended of old age.
    pub(super) fn is_over(&self) -> bool {
        now() >= self.ends
    }

    /// Returns how long the session can still be used.
    pub(super) fn rest(&self) -> Duration {
        Duration::from_secs(self.ends.saturating_sub(now()))
    }
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The most bytes of an id.
const LONGEST: usize = 1024;
/// How long a session can be used.
pub(super) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve::SessionKey;
    use crate::json::JsonObject;

    fn keys(text: &str) -> SealingKeys {
        SealingKeys::new(&[SessionKey(text.to_owned())])
    }

    fn terms(tools: usize) -> SessionTerms {
        let capabilities = JsonObject::read(r#"{"roots":{"listChanged":true},"elicitation":{}}"#).unwrap();
        let tools = (0..tools).map(|number| format!("tool-{number}")).collect();
        SessionTerms {
            version: "2025-11-25".to_owned(),
            capabilities: CapabilityFlags::read(&capabilities),
            client_name: Some("a client".into()),
            choice: (!Vec::is_empty(&tools)).then(|| vec![SelectedServer { id: "files".to_owned(), tools }]),
        }
    }

    #[test]
    fn an_id_holds_what_initialize_fixed() {
        let ann = Principal { name: "ann@example.com".to_owned(), admin: true };
        for terms in [terms(0), terms(9), SessionTerms::default()] {
            let sealed = SealedSession::seal(&keys("k"), "0123456789abcdef", &ann, terms.clone()).unwrap();
            assert!(sealed.header.to_str().unwrap().bytes().all(|byte| byte.is_ascii_graphic()));
            let opened = SealedSession::open(&keys("k"), &sealed.header).expect("it has the key");
            assert_eq!(
                (opened.terms.clone(), opened.principal.clone(), &*opened.name),
                (terms, ann.clone(), "0123456789abcdef")
            );
            assert!(opened.ends == sealed.ends && opened.rest() > LIFETIME / 2 && opened.key == sealed.key);
            assert!(SealedSession::open(&keys("other"), &sealed.header).is_none());
        }
    }

    #[test]
    fn an_id_has_at_most_1024_bytes() {
        let ann = Principal { name: "ann".to_owned(), admin: false };
        let sealed = SealedSession::seal(&keys("k"), "name", &ann, terms(50)).unwrap();
        assert!(sealed.header.len() <= LONGEST);
        assert_eq!(SealedSession::seal(&keys("k"), "name", &ann, terms(99)).unwrap_err(), SealError::TooLong);
        let long = HeaderValue::try_from("A".repeat(LONGEST + 1)).unwrap();
        assert!(SealedSession::open(&keys("k"), &long).is_none());
    }
}
