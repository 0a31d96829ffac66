//! URLs that a server sends a person to: masks must not change them.

use crate::json::{JsonObject, MemberFinder};

/// Returns the input requests of a result if one of them has a URL.
pub(super) fn questions_with_urls(answer: &str) -> Option<JsonObject> {
    // A cheap test first: almost no result has both.
    if !ASKED.is_in(answer) || !URL.is_in(answer) {
        return None;
    }
    JsonObject::read(JsonObject::read(answer)?.get(REQUESTS)?.get())
}

/// Restores the original URLs in a masked result.
pub(super) fn restore_urls(masked: String, questions: &JsonObject) -> String {
    restored(&masked, questions).unwrap_or(masked)
}

fn restored(masked: &str, questions: &JsonObject) -> Option<String> {
    let mut answer = JsonObject::read(masked)?;
    let mut shown = JsonObject::read(answer.get(REQUESTS)?.get())?;
    let mut changed = false;
    for (key, question) in questions.iter() {
        let params =
            JsonObject::read(question.get()).and_then(|question| JsonObject::read(question.get("params")?.get()));
        let (Some(params), Some(mut own)) = (params, shown.get(key).and_then(|own| JsonObject::read(own.get()))) else {
            continue;
        };
        let Some(mut own_params) = own.get("params").and_then(|params| JsonObject::read(params.get())) else {
            continue;
        };
        for name in EXEMPT {
            if let Some(value) = params.get(name) {
                own_params.set(name, value);
                changed = true;
            }
        }
        own.set("params", &own_params);
        shown.set(key, &own);
    }
    answer.set(REQUESTS, &shown);
    changed.then(|| answer.to_text())
}

/// Members that masks leave alone: the URL, and the id that the server uses to report completion.
pub(crate) const EXEMPT: [&str; 2] = ["url", "elicitationId"];
const REQUESTS: &str = "inputRequests";
static ASKED: MemberFinder = MemberFinder::new("\"inputRequests\"");
static URL: MemberFinder = MemberFinder::new("\"url\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_it_was_and_all_else_is_masked() {
        let answer = r#"{"resultType":"input_required","inputRequests":{"k 1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example/?token=a","message":"a"}},"l":{"method":"roots/list"}}}"#;
        let masked = r#"{"resultType":"input_required","inputRequests":{"k 1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example/?token=*","message":"*"}},"l":{"method":"roots/list"}}}"#;
        let expected = r#"{"resultType":"input_required","inputRequests":{"k 1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example/?token=a","message":"*"}},"l":{"method":"roots/list"}}}"#;
        let questions = questions_with_urls(answer).unwrap();
        assert_eq!(restore_urls(masked.to_owned(), &questions), expected);
        assert_eq!(restore_urls("no object".to_owned(), &questions), "no object");
        assert!(super::questions_with_urls(r#"{"inputRequests":{}}"#).is_none());
    }
}
