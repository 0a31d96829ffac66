//! The names of keys and channels. What is in braces is all that a cluster looks at, so that a script finds all of its
//! keys in one place.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::agent::AgentKey;
use crate::logic::types::rules::{CallLimit, LimitScope};
use crate::sha256::sha256;

/// What the keys of labels begin with; the agent follows.
pub(super) const LABELS: &str = "toolgate:{agents}:labels:";
/// What the keys of known values begin with; the agent follows.
pub(super) const KNOWN: &str = "toolgate:{agents}:known:";
/// The agents that are whole principals.
pub(super) const PRINCIPALS: &str = "toolgate:{agents}:principals";
/// The agents that are single sessions or traces.
pub(super) const PARTS: &str = "toolgate:{agents}:parts";
/// The epoch of the store, which is another one if the store has lost something.
pub(super) const EPOCH: &str = "toolgate:{agents}:epoch";
/// The sessions that have ended.
pub(super) const ENDED_SESSIONS: &str = "toolgate:{sessions}:ended";

/// Returns the key of a count of calls.
pub(super) fn limit(rule: &str, limit: CallLimit, principal: &str) -> String {
    let whose = match limit.by {
        LimitScope::Principal => format!("of:{}", name(principal)),
        LimitScope::Everybody => "all".to_owned(),
    };
    format!("toolgate:{{limits}}:{}:{}:{whose}", name(rule), limit.per_ms)
}

/// Returns the key of a client's bucket.
pub(super) fn rate(client: &str) -> String {
    format!("toolgate:rate:{}", name(client))
}

/// Returns the key of something that can be used once. It is where the epoch is, so that both are asked at once.
pub(super) fn spent(id: &str) -> String {
    format!("toolgate:{{agents}}:spent:{}", name(id))
}

/// Returns the key of a session's state.
pub(super) fn session(id: &str) -> String {
    format!("toolgate:{{sessions}}:state:{}", name(id))
}

/// Returns the key of the number of writes of a replica, by which it sees whether the store has lost some.
pub(super) fn writes(replica: &str) -> String {
    format!("toolgate:{{agents}}:writes:{}", name(replica))
}

/// Returns the channel of messages for one replica, or for all.
pub(super) fn channel(replica: Option<&str>) -> String {
    match replica {
        Some(replica) => format!("toolgate:to:{}", name(replica)),
        None => "toolgate:to-all".to_owned(),
    }
}

/// Returns the index that an agent is in, and its name there.
pub(super) fn agent(key: &AgentKey) -> (&'static str, String) {
    match key.part() {
        None => (PRINCIPALS, name(key.principal())),
        Some(part) => (PARTS, format!("{}/{}", name(key.principal()), name(part))),
    }
}

/// Returns a text as a part of a key: as it is, or as its digest if it is long or has unusual characters.
pub(super) fn name(text: &str) -> String {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
    match (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_usual) {
        true => text.to_owned(),
        false => format!("#{}", URL_SAFE_NO_PAD.encode(&sha256(text.as_bytes())[..16])),
    }
}

/// The longest name that is a part of a key as it is.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_different_things_are_different_and_short() {
        let by = |by| CallLimit { calls: 1, per_ms: 60_000, by };
        let keys = [
            limit("a", by(LimitScope::Principal), "b"),
            limit("a", by(LimitScope::Everybody), "b"),
            limit("a:60000:all", by(LimitScope::Everybody), "b"),
            rate("ann"),
            rate(&"x".repeat(9999)),
            rate(""),
            session("ann"),
            spent("ann"),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(key.starts_with("toolgate:") && key.len() < 200, "{key}");
            assert!(!keys[..at].contains(key), "{key}");
        }
        assert_eq!(keys[0], "toolgate:{limits}:a:60000:of:b");
        assert_eq!(channel(Some("aB3-_x")), "toolgate:to:aB3-_x");
    }
}
