//! An OAuth token, and when it must be replaced.

use std::time::{Duration, SystemTime};

use rmcp::transport::auth::StoredCredentials;
use serde::Deserialize;

use crate::config::model::OAuthGrant;
use crate::web::body::excerpt;

/// An OAuth token.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct OAuthToken {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) received: Option<SystemTime>,
    pub(super) life: Option<Duration>,
}

/// Whether a token can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenExpiry {
    /// The token can be used.
    Valid,
    /// The token can be used, but should be replaced.
    Expiring,
    /// The token can no longer be used.
    Expired,
}

impl OAuthToken {
    /// Reads the token from stored credentials, if there is one that can be sent.
    pub(super) fn read(stored: &StoredCredentials) -> Option<Self> {
        let response = TokenResponse::of(stored)?;
        response.check().ok()?;
        let TokenResponse { access_token, refresh_token, expires_in, .. } = response;
        Some(OAuthToken {
            access: access_token,
            refresh: refresh_token,
            // An empty string is not a scope.
            scopes: stored.granted_scopes.iter().filter(|scope| !scope.is_empty()).cloned().collect(),
            received: stored.token_received_at.map(|at| SystemTime::UNIX_EPOCH + Duration::from_secs(at)),
            life: expires_in.map(Duration::from_secs),
        })
    }

    /// Fails if credentials have a token that cannot be sent as a bearer token, and says why without repeating it.
    pub(super) fn check(credentials: &StoredCredentials) -> Result<(), String> {
        match TokenResponse::of(credentials) {
            Some(response) => response.check(),
            None => Ok(()),
        }
    }

    /// Returns the time when the token expires, if known.
    pub(super) fn expires_at(&self) -> Option<SystemTime> {
        self.received?.checked_add(self.life?)
    }

    /// Returns whether the token can be used at this time.
    pub(super) fn expiry(&self, now: SystemTime, grant: OAuthGrant) -> TokenExpiry {
        let (Some(received), Some(life)) = (self.received, self.life) else { return TokenExpiry::Valid };
        let age = now.duration_since(received).unwrap_or_default();
        let early = match grant {
            // Replacing it needs no person, so it can be done early.
            OAuthGrant::ClientCredentials => life / 5,
            OAuthGrant::AuthorizationCode => EARLY.min(life / 5),
        };
        match () {
            () if age >= life => TokenExpiry::Expired,
            () if age >= life - early => TokenExpiry::Expiring,
            () => TokenExpiry::Valid,
        }
    }

    /// Reports whether the token has all of these scopes.
    pub(super) fn allows(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

/// What a token endpoint answered.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
}

impl TokenResponse {
    fn of(stored: &StoredCredentials) -> Option<Self> {
        let response = serde_json::to_value(stored.token_response.as_ref()?).ok()?;
        serde_json::from_value(response).ok()
    }

    /// Fails unless this is a bearer token (RFC 6750) of characters that a header may have.
    fn check(&self) -> Result<(), String> {
        if !self.token_type.eq_ignore_ascii_case("bearer") {
            let kind = excerpt(&self.token_type);
            return Err(format!("the issued token is of type {kind:?}, but only bearer tokens can be sent"));
        }
        if self.access_token.is_empty() {
            return Err("the issued token is empty".to_owned());
        }
        if !self.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the issued token has characters that no token may have, such as a line break".to_owned());
        }
        Ok(())
    }
}

/// How long before it expires a token is replaced, so that it does not expire during a request.
const EARLY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_before_its_end_and_one_of_ours_at_four_fifths_of_its_life() {
        let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let token = |life: Option<u64>| OAuthToken {
            access: "a".to_owned(),
            refresh: None,
            scopes: Vec::new(),
            received: Some(received),
            life: life.map(Duration::from_secs),
        };
        let check = |life: Option<u64>, age: u64, grant: OAuthGrant, due: TokenExpiry| {
            assert_eq!(token(life).expiry(received + Duration::from_secs(age), grant), due, "{life:?} {age} {grant:?}");
        };
        check(Some(1000), 799, OAuthGrant::ClientCredentials, TokenExpiry::Valid);
        check(Some(1000), 800, OAuthGrant::ClientCredentials, TokenExpiry::Expiring);
        check(Some(1000), 1000, OAuthGrant::ClientCredentials, TokenExpiry::Expired);
        check(Some(1000), 969, OAuthGrant::AuthorizationCode, TokenExpiry::Valid);
        check(Some(1000), 970, OAuthGrant::AuthorizationCode, TokenExpiry::Expiring);
        check(Some(10), 7, OAuthGrant::AuthorizationCode, TokenExpiry::Valid);
        check(Some(10), 8, OAuthGrant::AuthorizationCode, TokenExpiry::Expiring);
        check(Some(0), 0, OAuthGrant::AuthorizationCode, TokenExpiry::Expired);
        check(None, 1_000_000, OAuthGrant::ClientCredentials, TokenExpiry::Valid);
    }
}
