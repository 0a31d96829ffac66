//! Authenticates clients by bearer token. Only digests of tokens are kept.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};

use super::error::HttpServerError;
use crate::gateway::client::Principal;
use crate::gateway::refusal::RequestRefusal;
use crate::sha256::{hex, sha256};

/// The accepted tokens and their principals.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    /// The principals, in the order in which their tokens were given.
    principals: Vec<Arc<Principal>>,
    /// The place of each token's principal, by the digest of the token. The map hashes the digests with a random key, so
    /// the time of a look reveals nothing about them.
    places: HashMap<[u8; 32], usize>,
}

impl Tokens {
    /// Creates the list from pairs of a token and its principal.
    pub fn new(pairs: impl IntoIterator<Item = (String, Principal)>) -> Result<Self, HttpServerError> {
        let mut tokens = Tokens::default();
        for (token, principal) in pairs {
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(HttpServerError::Token { name: principal.name });
            }
            tokens.places.insert(digest(token.as_bytes()), tokens.principals.len());
            tokens.principals.push(Arc::new(principal));
        }
        Ok(tokens)
    }

    /// Draws a random token for the local admin, or returns `None` if no random numbers are available.
    pub fn draw() -> Option<(String, Self)> {
        let mut bytes = [0; 32];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
        let token = hex(&bytes);
        let tokens = Tokens::new([(token.clone(), Principal::local())]).ok()?;
        Some((token, tokens))
    }

    /// Reports whether there are no tokens, so that clients need none.
    pub fn is_empty(&self) -> bool {
        self.principals.is_empty()
    }

    /// Returns the principal of the token with this digest.
    fn owner(&self, digest: &[u8; 32]) -> Option<&Arc<Principal>> {
        self.principals.get(*self.places.get(digest)?)
    }
}

/// Finds the principal that sends a request.
pub(super) struct Authenticator {
    tokens: Tokens,
    /// The tokens that make an admin when `tokens` is empty.
    dashboard: Tokens,
    /// The principal of clients without a token when `tokens` is empty.
    anonymous: Arc<Principal>,
}

/// The digest of the token in a request, for checking it again later.
#[derive(Clone, Copy)]
pub(super) struct TokenDigest(Option<[u8; 32]>);

impl TokenDigest {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        TokenDigest(headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())).map(digest))
    }
}

/// The outcome of authenticating a request.
pub(super) enum AuthResult {
    /// A principal.
    Known(Arc<Principal>),
    /// No token, although one is required.
    Missing,
    /// A token of no principal.
    Unknown,
    /// More than one token.
    Malformed,
}

impl Authenticator {
    /// Requires one of `tokens`. If there are none, a token of `dashboard` identifies its owner, and all other clients
    /// are `everybody`.
    pub(super) fn new(tokens: Tokens, dashboard: Tokens, everybody: Principal) -> Self {
        Authenticator { tokens, dashboard, anonymous: Arc::new(everybody) }
    }

    /// Returns a copy of the authenticator with other tokens.
    pub(super) fn with(&self, tokens: Tokens) -> Self {
        Authenticator { tokens, dashboard: self.dashboard.clone(), anonymous: self.anonymous.clone() }
    }

    /// Reports whether the principal still has a token, or needs none.
    pub(super) fn has_principal(&self, principal: &Principal) -> bool {
        self.needs_no_token(principal) || self.in_use().principals.iter().any(|known| **known == *principal)
    }

    /// Reports whether the token still belongs to the principal, or the principal needs none.
    pub(super) fn accepts(&self, TokenDigest(shown): TokenDigest, principal: &Principal) -> bool {
        let owner = shown.as_ref().and_then(|shown| self.in_use().owner(shown));
        self.needs_no_token(principal) || owner.is_some_and(|owner| **owner == *principal)
    }

    fn needs_no_token(&self, principal: &Principal) -> bool {
        self.tokens.is_empty() && *principal == *self.anonymous
    }

    /// Returns the tokens that identify anybody now.
    fn in_use(&self) -> &Tokens {
        if self.tokens.is_empty() { &self.dashboard } else { &self.tokens }
    }

    /// Reports whether no tokens are required, so that only addresses tell clients apart.
    pub(super) fn allows_anonymous(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Reports whether there are several principals.
    pub(super) fn has_several_principals(&self) -> bool {
        self.tokens.principals.windows(2).any(|pair| pair[0] != pair[1])
    }

    pub(super) fn authenticate(&self, headers: &HeaderMap) -> AuthResult {
        let value = headers.get(AUTHORIZATION);
        let token = value.and_then(|value| bearer(value.as_bytes()));
        // A proxy may join two headers into one: `Bearer one, Bearer two`.
        if token.is_some_and(|token| token.iter().any(u8::is_ascii_whitespace)) {
            return AuthResult::Malformed;
        }
        if self.tokens.is_empty() {
            let shown = token.filter(|_| !self.dashboard.is_empty()).map(digest);
            let admin = shown.and_then(|shown| self.dashboard.owner(&shown));
            return AuthResult::Known(admin.unwrap_or(&self.anonymous).clone());
        }
        match (value, token.and_then(|token| self.tokens.owner(&digest(token)))) {
            (None, _) => AuthResult::Missing,
            (Some(_), Some(principal)) => AuthResult::Known(principal.clone()),
            (Some(_), None) => AuthResult::Unknown,
        }
    }
}

impl AuthResult {
    /// Returns the principal, or the refusal for a request without one.
    pub(super) fn required(self) -> Result<Arc<Principal>, RequestRefusal> {
        match self {
            AuthResult::Known(principal) => Ok(principal),
            AuthResult::Missing => {
                Err(RequestRefusal::unauthorized("a token is needed: send `Authorization: Bearer TOKEN`"))
            }
            AuthResult::Unknown => {
                Err(RequestRefusal::unauthorized("this token is unknown: check the one in your settings"))
            }
            AuthResult::Malformed => {
                let message = "more than one token: send one header `Authorization: Bearer TOKEN`";
                Err(RequestRefusal::new(StatusCode::BAD_REQUEST, message))
            }
        }
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    sha256(token)
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
        let authenticator = Authenticator::new(two(), Tokens::default(), Principal::anybody());
        let look = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            match authenticator.authenticate(&headers) {
                AuthResult::Known(principal) => principal.name.clone(),
                AuthResult::Missing => "nothing".to_owned(),
                AuthResult::Unknown => "wrong".to_owned(),
                AuthResult::Malformed => "malformed".to_owned(),
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
            ("Bearer alpha, Bearer beta", "malformed"),
            ("Bearer alpha,Bearer beta", "malformed"),
            ("Bearer alpha beta", "malformed"),
            ("Bearer alpha\tbeta", "malformed"),
        ] {
            assert_eq!(look(value), expected, "{value}");
        }
        assert!(matches!(authenticator.authenticate(&HeaderMap::new()), AuthResult::Missing));
    }

    #[test]
    fn without_tokens_only_the_token_of_the_dashboard_makes_an_admin() {
        let (token, dashboard) = Tokens::draw().unwrap();
        assert_eq!(token.len(), 64);
        assert_ne!(token, Tokens::draw().unwrap().0);
        let authenticator = Authenticator::new(Tokens::default(), dashboard, Principal::anybody());
        let is_admin = |authenticator: &Authenticator, shown: &str| {
            let header = (!shown.is_empty()).then(|| (AUTHORIZATION, shown.parse().unwrap()));
            let principal = authenticator.authenticate(&HeaderMap::from_iter(header)).required().ok()?;
            assert!(authenticator.has_principal(&principal) && (principal.name == "local" || principal.name == "ann"));
            Some(principal.admin)
        };
        let bearer = format!("Bearer {token}");
        for (shown, admin) in
            [("", Some(false)), ("Bearer guess", Some(false)), (&bearer, Some(true)), ("Bearer a b", None)]
        {
            assert_eq!(is_admin(&authenticator, shown), admin, "{shown}");
        }
        let closed = authenticator.with(two());
        assert_eq!((is_admin(&closed, &bearer), is_admin(&closed, "Bearer alpha")), (None, Some(true)));
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
