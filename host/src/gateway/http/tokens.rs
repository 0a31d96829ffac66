//! Who a client is, by the bearer token that it shows. No token is kept, only its digest.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::DoorError;
use super::refusal::Refusal;
use crate::gateway::client::Principal;

/// The tokens that open a door, and whose they are.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<Entry>);

impl Tokens {
    /// Takes pairs of a token and who shows it.
    pub fn new(pairs: impl IntoIterator<Item = (String, Principal)>) -> Result<Self, DoorError> {
        let mut entries = Vec::new();
        for (token, principal) in pairs {
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(DoorError::Token { name: principal.name });
            }
            entries.push(Entry { digest: digest(token.as_bytes()), principal: Arc::new(principal) });
        }
        Ok(Tokens(entries))
    }

    /// Whether there are none, so that everybody is let in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token this is. Every entry is looked at, however early one fits.
    fn owner(&self, token: &[u8]) -> Option<&Arc<Principal>> {
        let shown = digest(token);
        let mut found = u32::MAX;
        for (index, entry) in (0u32..).zip(&self.0) {
            let same: Choice = entry.digest.ct_eq(&shown);
            found.conditional_assign(&index, same);
        }
        self.0.get(found as usize).map(|entry| &entry.principal)
    }
}

/// Tells who sends a request.
pub(super) struct Doorkeeper {
    tokens: Tokens,
    everybody: Arc<Principal>,
}

/// The token that a request shows, to be known again.
#[derive(Clone, Copy)]
pub(super) struct Pass(Option<[u8; 32]>);

impl Pass {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Pass(headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())).map(digest))
    }
}

/// What a request shows.
pub(super) enum Shown {
    /// A principal.
    Known(Arc<Principal>),
    /// Nothing, where a token is asked for.
    Nothing,
    /// A token that nobody has.
    Wrong,
}

impl Doorkeeper {
    pub(super) fn new(tokens: Tokens) -> Self {
        Doorkeeper { tokens, everybody: Arc::new(Principal::local()) }
    }

    /// Whether this principal still has a token.
    pub(super) fn knows(&self, principal: &Principal) -> bool {
        match self.tokens.is_empty() {
            true => *principal == *self.everybody,
            false => self.tokens.0.iter().any(|entry| *entry.principal == *principal),
        }
    }

    /// Whether this is still a token of this principal, where one is asked for.
    pub(super) fn honours(&self, Pass(shown): Pass, principal: &Principal) -> bool {
        let same = |entry: &Entry| shown.is_some_and(|shown| entry.digest.ct_eq(&shown).into());
        match self.tokens.is_empty() {
            true => *principal == *self.everybody,
            false => self.tokens.0.iter().any(|entry| same(entry) && *entry.principal == *principal),
        }
    }

    /// Whether everybody is the same principal, and only the peer tells them apart.
    pub(super) fn lets_everybody_in(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether several principals share what there is.
    pub(super) fn knows_several(&self) -> bool {
        self.tokens.0.windows(2).any(|pair| pair[0].principal != pair[1].principal)
    }

    pub(super) fn look(&self, headers: &HeaderMap) -> Shown {
        if self.tokens.is_empty() {
            return Shown::Known(self.everybody.clone());
        }
        let Some(value) = headers.get(AUTHORIZATION) else { return Shown::Nothing };
        match bearer(value.as_bytes()).and_then(|token| self.tokens.owner(token)) {
            Some(principal) => Shown::Known(principal.clone()),
            None => Shown::Wrong,
        }
    }
}

impl Shown {
    /// The principal, or why the request cannot have one.
    pub(super) fn required(self) -> Result<Arc<Principal>, Refusal> {
        match self {
            Shown::Known(principal) => Ok(principal),
            Shown::Nothing => Err(Refusal::unauthorized("a token is needed: send `Authorization: Bearer TOKEN`")),
            Shown::Wrong => Err(Refusal::unauthorized("nobody has this token: check the one in your settings")),
        }
    }
}

#[derive(Debug, Clone)]
struct Entry {
    /// Of equal length for all, so that a comparison tells nothing about the token.
    digest: [u8; 32],
    principal: Arc<Principal>,
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str) -> Principal {
        Principal { name: name.to_owned(), admin: name == "ann" }
    }

    fn two() -> Tokens {
        Tokens::new([("alpha".to_owned(), principal("ann")), ("beta".to_owned(), principal("bob"))]).unwrap()
    }

    #[test]
    fn a_token_tells_who_shows_it() {
        let keeper = Doorkeeper::new(two());
        let look = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            match keeper.look(&headers) {
                Shown::Known(principal) => principal.name.clone(),
                Shown::Nothing => "nothing".to_owned(),
                Shown::Wrong => "wrong".to_owned(),
            }
        };
        for (value, expected) in [
            ("Bearer alpha", "ann"),
            ("bearer beta", "bob"),
            ("BEARER  beta", "bob"),
            ("Bearer alph", "wrong"),
            ("Bearer alphab", "wrong"),
            ("Bearer ", "wrong"),
            ("Basic alpha", "wrong"),
            ("alpha", "wrong"),
        ] {
            assert_eq!(look(value), expected, "{value}");
        }
        assert!(matches!(keeper.look(&HeaderMap::new()), Shown::Nothing));
    }

    #[test]
    fn without_tokens_everybody_is_the_local_admin() {
        let Shown::Known(principal) = Doorkeeper::new(Tokens::default()).look(&HeaderMap::new()) else { panic!() };
        assert_eq!(*principal, Principal { name: "local".to_owned(), admin: true });
    }

    #[test]
    fn a_token_is_not_in_the_debug_output() {
        assert!(!format!("{:?}", two()).contains("alpha"));
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused() {
        for token in ["", "two words", "täglich", "line\n"] {
            let error = Tokens::new([(token.to_owned(), principal("ann"))]).unwrap_err().to_string();
            assert!(error.contains("\"ann\"") && (token.is_empty() || !error.contains(token)), "{error}");
        }
    }
}
