//! A token as we hold it, and when it is due.

use std::time::{Duration, SystemTime};

use rmcp::transport::auth::StoredCredentials;
use serde::Deserialize;

use crate::config::model::Grant;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) received: Option<SystemTime>,
    pub(super) life: Option<Duration>,
}

/// Whether a token can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// It can.
    No,
    /// It still can, and should be replaced.
    Soon,
    /// It no longer can.
    Over,
}

impl Token {
    /// The token of what is stored, if there is one.
    pub(super) fn read(stored: &StoredCredentials) -> Option<Self> {
        #[derive(Deserialize)]
        struct Response {
            access_token: String,
            #[serde(default)]
            refresh_token: Option<String>,
            #[serde(default)]
            expires_in: Option<u64>,
        }
        let response = serde_json::to_value(stored.token_response.as_ref()?).ok()?;
        let Response { access_token, refresh_token, expires_in } = serde_json::from_value(response).ok()?;
        Some(Token {
            access: access_token,
            refresh: refresh_token,
            // One that says nothing is no scope.
            scopes: stored.granted_scopes.iter().filter(|scope| !scope.is_empty()).cloned().collect(),
            received: stored.token_received_at.map(|at| SystemTime::UNIX_EPOCH + Duration::from_secs(at)),
            life: expires_in.map(Duration::from_secs),
        })
    }

    /// When it ends, where that is known.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        self.received?.checked_add(self.life?)
    }

    /// Whether it can be used at this time.
    pub(super) fn due(&self, now: SystemTime, grant: Grant) -> Due {
        let (Some(received), Some(life)) = (self.received, self.life) else { return Due::No };
        let age = now.duration_since(received).unwrap_or_default();
        let early = match grant {
            // Nobody is asked for them, so that they can be replaced in good time.
            Grant::ClientCredentials => life / 5,
            Grant::AuthorizationCode => EARLY.min(life / 5),
        };
        match () {
            () if age >= life => Due::Over,
            () if age >= life - early => Due::Soon,
            () => Due::No,
        }
    }

    /// Whether it allows all of this.
    pub(super) fn allows(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

/// How long before its end a token is replaced, so that it does not end on its way.
const EARLY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_before_its_end_and_one_of_ours_at_four_fifths_of_its_life() {
        let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let token = |life: Option<u64>| Token {
            access: "a".to_owned(),
            refresh: None,
            scopes: Vec::new(),
            received: Some(received),
            life: life.map(Duration::from_secs),
        };
        let check = |life: Option<u64>, age: u64, grant: Grant, due: Due| {
            assert_eq!(token(life).due(received + Duration::from_secs(age), grant), due, "{life:?} {age} {grant:?}");
        };
        check(Some(1000), 799, Grant::ClientCredentials, Due::No);
        check(Some(1000), 800, Grant::ClientCredentials, Due::Soon);
        check(Some(1000), 1000, Grant::ClientCredentials, Due::Over);
        check(Some(1000), 969, Grant::AuthorizationCode, Due::No);
        check(Some(1000), 970, Grant::AuthorizationCode, Due::Soon);
        check(Some(10), 7, Grant::AuthorizationCode, Due::No);
        check(Some(10), 8, Grant::AuthorizationCode, Due::Soon);
        check(Some(0), 0, Grant::AuthorizationCode, Due::Over);
        check(None, 1_000_000, Grant::ClientCredentials, Due::No);
    }
}
