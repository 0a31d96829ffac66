//! Messages as text.

use crate::failure::RpcError;
use crate::transport::RequestId;

/// Writes a request.
pub fn request(id: RequestId, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, quote(method))
}

/// Writes a notification.
pub fn notification(method: &str, params: Option<&str>) -> String {
    let method = quote(method);
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0","method":{method}}}"#),
    }
}

/// Writes the `params` of `tools/call`; the arguments are one JSON object.
pub fn call_params(tool: &str, arguments: &str) -> String {
    format!(r#"{{"name":{},"arguments":{arguments}}}"#, quote(tool))
}

/// Writes the result of a request. It uses the memory of the result, which may be large.
pub fn result(id: &str, mut result: String) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    // Room for the closing brace, and for the line break that some transports add.
    result.reserve_exact(head.len() + 2);
    result.insert_str(0, &head);
    result.push('}');
    result
}

/// Writes the error of a request; without an id, it answers a message that could not be read.
pub fn error(id: Option<&str>, error: &RpcError) -> String {
    let RpcError { code, message, data } = error;
    let (id, message) = (id.unwrap_or("null"), quote(message));
    let data = data.as_deref().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
}

/// Writes a text as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::rpc::Message;

    #[test]
    fn what_is_written_can_be_read() {
        assert_eq!(request(7, "a/b", "{}"), r#"{"jsonrpc":"2.0","id":7,"method":"a/b","params":{}}"#);
        assert_eq!(notification("a/b", None), r#"{"jsonrpc":"2.0","method":"a/b"}"#);
        assert_eq!(notification("a/b", Some("[1]")), r#"{"jsonrpc":"2.0","method":"a/b","params":[1]}"#);
        assert_eq!(result("\"x\"", "{}".to_owned()), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
        let failed = RpcError { data: RawValue::from_string("[1.10]".to_owned()).ok(), ..RpcError::new(-1, "a\"b") };
        assert_eq!(
            error(None, &failed),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"a\"b","data":[1.10]}}"#
        );
    }

    #[test]
    fn a_method_cannot_begin_another_message() {
        let hostile = "a\"}\n{\"x\\";
        let text = request(1, hostile, "{}");
        assert!(!text.contains('\n'));
        let Message::Request(request) = Message::read(text) else { panic!() };
        assert_eq!(request.method(), hostile);
    }
}
