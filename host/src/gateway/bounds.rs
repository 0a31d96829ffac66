//! How long the words of a client may be that the gateway looks up, keeps, or says again.

use crate::failure::RpcError;
use crate::rpc::code::{INVALID_PARAMS, INVALID_REQUEST};

/// A text of at most so many bytes; one that is longer ends in an ellipsis.
pub(super) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - ELLIPSIS.len()));
        text.push_str(ELLIPSIS);
        text.shrink_to_fit();
    }
}

/// Refuses the name of a tool that is none, before anything else is done with it.
pub(super) fn check_tool_name(name: &str) -> Result<(), RpcError> {
    check_length("tool name", name, MOST_NAME)
}

/// The same for a prompt.
pub(super) fn check_prompt_name(name: &str) -> Result<(), RpcError> {
    check_length("prompt name", name, MOST_NAME)
}

/// The same for the address of a resource.
pub(super) fn check_uri(uri: &str) -> Result<(), RpcError> {
    check_length("resource address", uri, MOST_URI)
}

/// Refuses to keep what a client can be asked where it says more than any client has to say.
pub(super) fn check_capabilities(capabilities: &str) -> Result<(), RpcError> {
    if capabilities.len() <= MOST_CAPABILITIES {
        return Ok(());
    }
    let text = format!(
        "initialize: these capabilities (roots, sampling, elicitation) have {} bytes, and the most is {MOST_CAPABILITIES}",
        capabilities.len()
    );
    Err(RpcError::new(INVALID_PARAMS, text))
}

/// Refuses to watch more resources for one client than are kept for it.
pub(super) fn check_subscriptions<'a>(uris: impl Iterator<Item = &'a str>) -> Result<(), RpcError> {
    let (mut count, mut bytes) = (0, 0);
    for address in uris {
        check_uri(address)?;
        (count, bytes) = (count + 1, bytes + address.len());
    }
    if count <= MOST_WATCHED && bytes <= MOST_WATCHED_BYTES {
        return Ok(());
    }
    let text = format!(
        "too many resources are subscribed to: a client has at most {MOST_WATCHED}, of {MOST_WATCHED_BYTES} bytes of \
         addresses; unsubscribe from some first"
    );
    Err(RpcError::new(INVALID_PARAMS, text))
}

/// Refuses a batch of more messages than are answered at once.
pub(super) fn check_batch(messages: usize) -> Result<(), RpcError> {
    if messages <= MOST_BATCH {
        return Ok(());
    }
    let text = format!("this batch holds {messages} messages, and the most is {MOST_BATCH}: send them in several");
    Err(RpcError::new(INVALID_REQUEST, text))
}

fn check_length(what: &str, text: &str, most: usize) -> Result<(), RpcError> {
    if text.len() <= most {
        return Ok(());
    }
    let mut shown = text[..text.floor_char_boundary(SHOWN + 1)].to_owned();
    cut(&mut shown, SHOWN);
    let text = format!("invalid {what} {shown:?}: it has {} bytes, and the most is {most}", text.len());
    Err(RpcError::new(INVALID_PARAMS, text))
}

const ELLIPSIS: &str = "…";
/// How much of a text an error shows.
const SHOWN: usize = 128;
/// The longest name: more than the 128 letters of MCP and every prefix of ours.
const MOST_NAME: usize = 1 << 10;
/// The longest address of a resource.
const MOST_URI: usize = 8 << 10;
/// The longest description of what a client can be asked.
const MOST_CAPABILITIES: usize = 16 << 10;
/// The most resources that one client hears of.
const MOST_WATCHED: usize = 1000;
/// The most bytes of their addresses.
const MOST_WATCHED_BYTES: usize = 256 << 10;
/// The most messages of one batch: each gets an answer, which for a small one is longer than itself.
const MOST_BATCH: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_letters_and_says_so() {
        for (text, most, expected) in
            [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abc…"), ("äöüß", 8, "äöüß"), ("äöüßä", 8, "äö…")]
        {
            let mut shown = text.to_owned();
            cut(&mut shown, most);
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_without_being_said_again() {
        assert!(check_tool_name(&"n".repeat(1024)).is_ok() && check_uri(&"u".repeat(8192)).is_ok());
        for error in
            [check_tool_name(&"ä".repeat(600)), check_prompt_name(&"n".repeat(4_000_000)), check_uri(&"u".repeat(8193))]
        {
            let error = error.unwrap_err();
            assert_eq!(error.code, -32602);
            assert!(error.message.starts_with("invalid ") && error.message.len() < 300, "{}", error.message);
        }
        assert!(
            check_capabilities(&"c".repeat(16 << 10)).is_ok()
                && check_capabilities(&"c".repeat((16 << 10) + 1)).is_err()
        );
    }

    #[test]
    fn the_resources_that_one_client_hears_of_are_counted_and_weighed() {
        let watch = |count: usize, size: usize| {
            let address = "u".repeat(size);
            check_subscriptions(std::iter::repeat_n(address.as_str(), count))
        };
        assert!(watch(1000, 20).is_ok() && watch(1001, 20).is_err());
        assert!(watch(32, 8192).is_ok() && watch(33, 8192).is_err() && watch(1, 8193).is_err());
    }
}
