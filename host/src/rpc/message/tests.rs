use super::*;

fn request(text: &str) -> Request {
    match Message::read(text.to_owned()) {
        Message::Request(request) => request,
        other => panic!("{text}: {other:?}"),
    }
}

fn response(text: &str) -> (ResponseId, Result<String, RpcError>) {
    match Message::read(text.to_owned()) {
        Message::Response(response) => (response.id(), response.into_outcome().map(Reply::into_json)),
        other => panic!("{text}: {other:?}"),
    }
}

fn unreadable(text: &str) -> UnreadableMessage {
    match Message::read(text.to_owned()) {
        Message::Unreadable(unreadable) => unreadable,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_result_keeps_every_byte() {
    let result = r#"{ "b":1.10,"a":123456789012345678901234567890, "x":"\u00e9" }"#;
    let text = format!(r#" {{"result": {result} ,"id":7,"jsonrpc":"2.0","extra":[1]}} "#);
    assert_eq!(response(&text).1.unwrap(), result);
    assert_eq!(response(r#"{"id":1,"result":null}"#).1.unwrap(), "null");
}

#[test]
fn the_id_of_a_response_is_a_number_or_one_in_quotes_or_foreign() {
    for (text, id) in [
        (r#"{"id":1,"result":{}}"#, ResponseId::Number(1)),
        (r#"{"id":"1","result":{}}"#, ResponseId::Number(1)),
        (r#"{"id":"one","result":{}}"#, ResponseId::Foreign),
        (r#"{"id":-1,"result":{}}"#, ResponseId::Foreign),
        (r#"{"id":1.5,"result":{}}"#, ResponseId::Foreign),
        (r#"{"id":4.0,"result":{}}"#, ResponseId::Number(4)),
        (r#"{"id":null,"result":null}"#, ResponseId::Missing),
        (r#"{"result":null}"#, ResponseId::Missing),
        (r#"{"id":null,"error":{"code":-32000,"message":"m"}}"#, ResponseId::Missing),
    ] {
        assert_eq!(response(text).0, id, "{text}");
    }
}

#[test]
fn an_error_is_read_in_every_shape() {
    for (text, code, message, data) in [
        (r#"{"id":5,"error":{"code":-32601,"message":"Method not found"}}"#, -32601, "Method not found", None),
        (r#"{"id":5,"error":{"code":-1.0,"message":"m","data":[1.10]},"result":{}}"#, -1, "m", Some("[1.10]")),
        (r#"{"id":5,"error":{}}"#, INTERNAL_ERROR, "an error without a message", None),
        (r#"{"id":5,"error":"broken"}"#, INTERNAL_ERROR, "\"broken\"", None),
        (r#"{"id":5,"error":{"code":"x","message":{"a":1}}}"#, INTERNAL_ERROR, r#"{"a":1}"#, None),
        (r#"{"id":5,"error":{"code":-32042,"message":"cut \ud83d","data":null}}"#, -32042, "cut \u{fffd}", None),
    ] {
        let error = response(text).1.unwrap_err();
        assert_eq!((error.code, &*error.message), (code, message), "{text}");
        assert_eq!(error.data.as_deref().map(RawValue::get), data, "{text}");
    }
}

#[test]
fn requests_and_notifications_are_told_apart() {
    let ping = request(r#"{"method":"pi\u006eg","id":"a"}"#);
    assert_eq!((ping.method(), ping.id(), ping.params()), ("ping", "\"a\"", "{}"));
    assert!(ping.has_good_id() && !request(r#"{"method":"m","id":[1]}"#).has_good_id());
    for (text, params, null_id) in [
        (r#"{"method":"m","params":{}}"#, Some("{}"), false),
        (r#"{"method":"m","id":null}"#, None, true),
        (r#"{"method":"m","params":null}"#, None, false),
    ] {
        let Message::Notification(notification) = Message::read(text.to_owned()) else { panic!("{text}") };
        assert_eq!((notification.method(), notification.params()), ("m", params), "{text}");
        assert_eq!(notification.has_null_id(), null_id, "{text}");
    }
}

#[test]
fn a_request_tells_what_it_is_about() {
    let call =
        |params: &str| request(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#));
    for (params, name, arguments) in [
        (r#"{"name":"a","arguments":{"x":[{"name":"b"}]},"more":{}}"#, Some(r#""a""#), Some(r#"{"x":[{"name":"b"}]}"#)),
        (r#" { "arguments" : "x" , "name" : "é" } "#, Some(r#""é""#), Some(r#""x""#)),
        (r#"{"n\u0061me":"\u0061","arguments":null}"#, Some(r#""\u0061""#), None),
        (r#"{"name":1}"#, Some("1"), None),
        ("[1]", None, None),
        ("null", None, None),
    ] {
        let read = call(params);
        assert_eq!((read.param("name"), read.param("arguments")), (name, arguments), "{params}");
        assert_eq!(read.params_problem(), None, "{params}");
    }
    assert_eq!(call("null").params(), "{}");
    assert!(call(r#"{"name":"a","name":"b"}"#).params_problem().is_some_and(|problem| problem.contains("duplicate")));
    let meta = call(r#"{"_meta":{"a":1.10},"name":"a"}"#).meta().unwrap();
    assert_eq!(meta.to_text(), r#"{"a":1.10}"#);
    assert!(call(r#"{"_meta":7}"#).meta().is_none() && call(r#"{"a":{"_meta":{}}}"#).meta().is_none());
}

#[test]
fn what_is_no_message_is_refused_without_a_word_of_it() {
    for (text, code) in [
        ("", PARSE_ERROR),
        ("{\"method\":\"a\"", PARSE_ERROR),
        ("{\"method\":\"a\"} secret", PARSE_ERROR),
        ("[1,", PARSE_ERROR),
        ("{}", INVALID_REQUEST),
        ("\"secret\"", INVALID_REQUEST),
        ("{\"id\":1}", INVALID_REQUEST),
        ("{\"method\":{\"secret\":1}}", INVALID_REQUEST),
        ("{\"method\":\"a\",\"method\":\"secret\"}", INVALID_REQUEST),
        ("{\"id\":1,\"result\":{},\"result\":\"secret\"}", INVALID_REQUEST),
    ] {
        let error = unreadable(text).error();
        assert_eq!(error.code, code, "{text}");
        assert!(!error.message.contains("secret"), "{text}: {}", error.message);
    }
}

#[test]
fn what_cannot_be_read_may_still_say_whose_it_is() {
    for (text, id) in [
        (r#"{"jsonrpc":"2.0","id":4}"#, Some(4)),
        ("{\"result\":\"\u{0}\",\"id\" : 17}", Some(17)),
        (r#"{"jsonrpc":"2.0","id":"x"}"#, None),
        (r#"{"id":4,"level":"info","message":"error"}"#, None),
        (r#"{"id":4,"level":"info""#, None),
        ("{", None),
    ] {
        assert_eq!(unreadable(text).probable_id(), id, "{text}");
    }
}

#[test]
fn each_part_of_a_batch_is_a_message_of_its_own() {
    let text = r#" [{"id":1,"method":"a"},{"method":"b"},7,[{"id":2,"method":"c"}]]"#;
    let Message::Batch(batch) = Message::read(text.to_owned()) else { panic!() };
    let kinds: Vec<_> = batch.parts.iter().map(|part| (part.wants_answer(), part.request_id())).collect();
    assert_eq!(kinds, [(true, Some("1")), (false, None), (true, None), (true, None)]);
    assert!(matches!(Message::read("[]".to_owned()), Message::Batch(batch) if batch.parts.is_empty()));
}
