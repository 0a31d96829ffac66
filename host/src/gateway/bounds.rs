//! Size limits for what clients send and the gateway looks up, stores or repeats.

use crate::failure::RpcError;
use crate::gate::MOST_URI;
use crate::rpc::code::{INVALID_PARAMS, INVALID_REQUEST};

/// Cuts a text to at most `most` bytes, ending in an ellipsis if it was longer.
pub(super) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - ELLIPSIS.len()));
        text.push_str(ELLIPSIS);
        text.shrink_to_fit();
    }
}

/// Checks the length of a tool name, before anything else is done with it.
pub(super) fn check_tool_name(name: &str) -> Result<(), RpcError> {
    check_length("tool name", name, MOST_NAME)
}

/// Checks the length of a prompt name.
pub(super) fn check_prompt_name(name: &str) -> Result<(), RpcError> {
    check_length("prompt name", name, MOST_NAME)
}

/// Checks the length of a resource URI.
pub(super) fn check_uri(uri: &str) -> Result<(), RpcError> {
    check_length("resource URI", uri, MOST_URI)
}

/// Checks the number and total size of the resources that one client subscribes to.
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
        "too many resource subscriptions: a client can have at most {MOST_WATCHED}, with {MOST_WATCHED_BYTES} bytes of \
         URIs; unsubscribe from some first"
    );
    Err(RpcError::new(INVALID_PARAMS, text))
}

/// Checks the number of messages of a batch.
pub(super) fn check_batch(messages: usize) -> Result<(), RpcError> {
    if messages <= MOST_BATCH {
        return Ok(());
    }
    let text = format!("this batch has {messages} messages; the limit is {MOST_BATCH}: send several batches");
    Err(RpcError::new(INVALID_REQUEST, text))
}

fn check_length(what: &str, text: &str, most: usize) -> Result<(), RpcError> {
    if text.len() <= most {
        return Ok(());
    }
    let mut shown = text[..text.floor_char_boundary(SHOWN + 1)].to_owned();
    cut(&mut shown, SHOWN);
    let text = format!("invalid {what} {shown:?}: it has {} bytes; the limit is {most}", text.len());
    Err(RpcError::new(INVALID_PARAMS, text))
}

const ELLIPSIS: &str = "…";
/// The maximum number of bytes of a text that an error repeats.
const SHOWN: usize = 128;
/// The maximum length of a name: more than MCP's 128 characters plus any prefix of toolgate.
const MOST_NAME: usize = 1 << 10;
/// The maximum number of resources that one client subscribes to.
const MOST_WATCHED: usize = 1000;
/// The maximum total size of their URIs.
const MOST_WATCHED_BYTES: usize = 256 << 10;
/// The maximum number of messages of a batch: each gets a response, which may be longer than the message.
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
