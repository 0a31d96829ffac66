//! Adapts results to the era of the client.

use serde_json::value::RawValue;

use super::ClientSession;
use crate::json::{self, JsonObject, MemberFinder, RESULT_TYPE};
use crate::session::{Era, Listing};

/// Adapts a server's result to the era of the client.
pub(super) fn finish_result(era: Era, result: String) -> String {
    match era {
        Era::Modern if !RESULT_TYPE.is_in(&result) => insert(&result, r#""resultType":"complete""#),
        Era::Legacy if RESULT_TYPE.is_in(&result) => without(result, &["resultType"]),
        _ => result,
    }
}

/// Adapts a cacheable result to the era of the client, with how long it may be cached and by whom.
pub(super) fn finish_cacheable(era: Era, result: String, cache: CacheControl) -> String {
    if era == Era::Modern && wants_input(&result) {
        return result;
    }
    let result = without(result, &["resultType", "ttlMs", "cacheScope"]);
    match era {
        Era::Legacy => result,
        Era::Modern => {
            let CacheControl { ttl_ms, private } = cache;
            let scope = if private { "private" } else { "public" };
            insert(&result, &format!(r#""resultType":"complete","ttlMs":{ttl_ms},"cacheScope":"{scope}""#))
        }
    }
}

/// How long a result may be cached, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheControl {
    pub(super) ttl_ms: u64,
    /// Whether only this client may cache it.
    pub(super) private: bool,
}

impl CacheControl {
    /// Returns the cache control of a list; without a TTL, it must not be cached.
    pub(super) fn of(listing: &Listing) -> Self {
        let ttl_ms = listing.ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        CacheControl { ttl_ms, private: listing.private }
    }

    /// Returns the cache control of a server's result.
    pub(super) fn of_result(result: &str) -> Self {
        let said = Some(result).filter(|result| result.contains("ttlMs") || result.contains("cacheScope"));
        let said = said.and_then(JsonObject::read).unwrap_or_default();
        let ttl = said.get("ttlMs").and_then(|ttl| ttl.get().parse::<f64>().ok()).filter(|ttl| ttl.is_finite());
        let private = said.get("cacheScope").is_some_and(|scope| scope.get() == "\"private\"");
        CacheControl { ttl_ms: ttl.map_or(0, |ttl| ttl.max(0.0) as u64), private }
    }

    /// Returns the cache control of a result made of these parts; without parts, it must not be cached.
    pub(super) fn of_parts(parts: impl IntoIterator<Item = CacheControl>) -> Self {
        let both = |one: CacheControl, other: CacheControl| CacheControl {
            ttl_ms: one.ttl_ms.min(other.ttl_ms),
            private: one.private || other.private,
        };
        parts.into_iter().reduce(both).unwrap_or(CacheControl { ttl_ms: 0, private: false })
    }

    /// Makes the cache control private if clients have different views.
    pub(super) fn for_client(self, client: &ClientSession) -> Self {
        CacheControl { private: self.private || !client.gateway.active().options.views.is_empty(), ..self }
    }
}

/// Reports whether a result asks the client for input, also if the member is escaped or occurs twice.
pub(super) fn wants_input(result: &str) -> bool {
    let asks = |(name, kind): (&str, &RawValue)| {
        name == "resultType" && json::string_value(kind).is_some_and(|kind| kind == "input_required")
    };
    // Skips the parsing of most results, which ask for nothing.
    (INPUT_REQUIRED.is_in(result) || json::has_escaped_ascii(result))
        && JsonObject::read(result).is_some_and(|object| object.iter().any(asks))
}

/// Inserts members at the front of an object.
fn insert(object: &str, members: &str) -> String {
    let rest = object.trim_start().strip_prefix('{').unwrap_or("}").trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    format!("{{{members}{comma}{rest}")
}

/// Removes members from an object; an object without them is returned unchanged.
fn without(text: String, names: &[&str]) -> String {
    if !names.iter().any(|name| text.contains(name)) {
        return text;
    }
    let Some(mut object) = JsonObject::read(&text) else { return text };
    names.iter().for_each(|name| drop(object.remove(name)));
    object.to_text()
}

static INPUT_REQUIRED: MemberFinder = MemberFinder::new("\"input_required\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_dressed_for_the_era_of_the_client() {
        let cache = CacheControl { ttl_ms: 0, private: true };
        let rows = [
            (r#"{"a":1}"#, r#"{"resultType":"complete","a":1}"#, r#"{"a":1}"#),
            ("{}", r#"{"resultType":"complete"}"#, "{}"),
            (r#"{"resultType":"complete","a":1.10}"#, r#"{"resultType":"complete","a":1.10}"#, r#"{"a":1.10}"#),
            (r#"{"resultType":"x","a":1}"#, r#"{"resultType":"x","a":1}"#, r#"{"a":1}"#),
            (
                r#"{"resultType":"complete","a":{"resultType":1}}"#,
                r#"{"resultType":"complete","a":{"resultType":1}}"#,
                r#"{"a":{"resultType":1}}"#,
            ),
        ];
        for (result, for_modern, for_legacy) in rows {
            assert_eq!(finish_result(Era::Modern, result.to_owned()), for_modern);
            assert_eq!(finish_result(Era::Legacy, result.to_owned()), for_legacy);
        }
        assert_eq!(
            finish_cacheable(Era::Modern, r#"{"ttlMs":5,"tools":[]}"#.to_owned(), cache),
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#
        );
        let question = r#"{"inputRequests":{},"resultType":"input_required"}"#;
        assert_eq!(finish_cacheable(Era::Modern, question.to_owned(), cache), question);
        assert_eq!(finish_cacheable(Era::Legacy, r#"{"ttlMs":5,"tools":[]}"#.to_owned(), cache), r#"{"tools":[]}"#);
    }

    #[test]
    fn a_result_that_asks_is_known_however_it_is_spelt() {
        for (result, expected) in [
            (r#"{"resultType":"input_required"}"#, true),
            (r#"{"result\u0054ype":"input\u005frequired"}"#, true),
            (r#"{"resultType":"complete","resultType":"input_required"}"#, true),
            (r#"{"resultType":"input_required","resultType":"complete"}"#, true),
            (r#"{"resultType":"complete","content":["\"input_required\""]}"#, false),
            (r#"{"content":[{"resultType":"input_required"}]}"#, false),
        ] {
            assert_eq!(wants_input(result), expected, "{result}");
        }
    }

    #[test]
    fn a_whole_is_kept_as_long_as_its_parts_and_by_nobody_else() {
        let said = |text: &str| CacheControl::of_result(text);
        let cache = |ttl_ms, private| CacheControl { ttl_ms, private };
        assert_eq!(said(r#"{"ttlMs":1000,"cacheScope":"public","contents":[]}"#), cache(1000, false));
        assert_eq!(said(r#"{"contents":[{"text":"ttlMs"}]}"#), cache(0, false));
        assert_eq!(said(r#"{"ttlMs":-5,"cacheScope":"private"}"#), cache(0, true));
        assert_eq!(CacheControl::of_parts([cache(1000, false), cache(500, true)]), cache(500, true));
        assert_eq!(CacheControl::of_parts([]), cache(0, false));
    }
}
