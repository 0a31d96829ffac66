//! Loopback endpoints with scripted responses.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::{Summarizer, SummaryLimits};
use super::*;

const KEY: &str = "sk-test-0123456789";
const TEXT: &str = "the masked output of a tool";
const LIMITS: SummaryLimits = SummaryLimits { timeout: Duration::from_secs(60), max_input_bytes: 1000 };

/// An endpoint for one request, which may hold the connection after its response.
struct Endpoint {
    origin: String,
    /// Returns the request.
    task: JoinSet<Request>,
    /// Notified when the request has arrived.
    came: mpsc::UnboundedReceiver<()>,
}

struct Request {
    head: String,
    body: Value,
}

impl Endpoint {
    async fn start(answer: impl Into<Vec<u8>>, hold: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let answer = answer.into();
        let (tell, came) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).await.unwrap();
            tell.send(()).ok();
            // A client that has read enough closes the connection.
            let _ = stream.write_all(&answer).await;
            if hold {
                // Until the other side closes the connection.
                let _ = stream.read_u8().await;
            }
            Request { head, body: serde_json::from_slice(&body).unwrap() }
        });
        Endpoint { origin, task, came }
    }

    fn summarizer(&self, limits: SummaryLimits) -> Summarizer {
        let (url, model) = (format!("{}/v1?version=hidden", self.origin), "small".to_owned());
        Summarizer::Http(SummaryEndpoint::new(&url, model, Some(KEY)).unwrap(), limits)
    }

    async fn request(&mut self) -> Request {
        self.task.join_next().await.expect("one request").unwrap()
    }
}

fn task(text: &str) -> SummaryTask<'_> {
    SummaryTask { server: "kube", tool: "get_pods", text }
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn completion(content: &str) -> String {
    let body =
        json!({ "id": "1", "choices": [{ "index": 0, "message": { "role": "assistant", "content": content } }] });
    answer("200 OK", &body.to_string())
}

/// Sends a request to an endpoint with this response, and returns the error.
async fn fail(answer: impl Into<Vec<u8>>, hold: bool) -> SummarizeError {
    let endpoint = Endpoint::start(answer, hold).await;
    let error = endpoint.summarizer(LIMITS).summarize(task(TEXT)).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(KEY) && !shown.contains(TEXT) && !shown.contains("hidden"), "{shown}");
    error
}

#[tokio::test]
async fn a_completion_is_a_summary() {
    let mut endpoint = Endpoint::start(completion("  two pods \"fail\" \n"), false).await;
    let text = "x\"\n".repeat(1000);
    let summary = endpoint.summarizer(LIMITS).summarize(task(&text)).await.unwrap();
    assert_eq!(summary, "two pods \"fail\"");
    let Request { head, body } = endpoint.request().await;
    assert!(head.starts_with("post /v1/chat/completions?version=hidden http/1.1\r\n"), "{head}");
    for line in ["content-type: application/json", &format!("authorization: bearer {KEY}")] {
        assert_eq!(head.lines().filter(|found| found == &line).count(), 1, "{head}");
    }
    let cut = format!("{}\n\n[CUT: these are the first 1000 of 3000 bytes]", &text[..1000]);
    let messages = json!([{ "role": "system", "content": INSTRUCTION }, { "role": "user", "content": cut }]);
    assert_eq!(body, json!({ "model": "small", "messages": messages }));
}

#[tokio::test]
async fn an_endpoint_without_a_key_gets_none_and_a_login_is_one() {
    for (login, expected) in [("", None), ("me:word@", Some("authorization: basic bwu6d29yza=="))] {
        let mut endpoint = Endpoint::start(completion("summary"), false).await;
        let url = endpoint.origin.replace("//", &format!("//{login}"));
        let http = SummaryEndpoint::new(&url, "small".to_owned(), None).unwrap();
        assert!(!format!("{http:?}").contains("word"), "{http:?}");
        Summarizer::Http(http, LIMITS).summarize(task(TEXT)).await.unwrap();
        let head = endpoint.request().await.head;
        assert_eq!(head.lines().find(|line| line.starts_with("authorization")), expected);
    }
}

#[test]
fn an_address_is_completed_unless_it_is_complete() {
    let check = |url: &str, complete: &str| {
        let http = SummaryEndpoint::new(url, String::new(), None).unwrap();
        assert_eq!(http.url.as_str(), complete);
    };
    check("http://localhost:11434/v1", "http://localhost:11434/v1/chat/completions");
    check("http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions");
    check("https://a.example", "https://a.example/chat/completions");
    check("https://a.example/v1/chat/completions", "https://a.example/v1/chat/completions");
    check("https://a.example/x/chat/completions?api-version=1", "https://a.example/x/chat/completions?api-version=1");
}

#[test]
fn what_cannot_be_right_is_refused_without_repeating_it() {
    let check = |url: &str, key: Option<&str>, message: &str| {
        let error = SummaryEndpoint::new(url, String::new(), key).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    };
    check("s3cret", None, "summarizer: the url is not an address: relative URL");
    check("ftp://me:s3cret@a.example", None, "summarizer: the url begins neither with http://");
    check("http://me:s3cret@a.example", Some("s3cret"), "summarizer: the url has a login, and there is an api_key");
    check("http://a.example", Some("s3cret\nx"), "summarizer: the api_key has characters that no header may have");
}

#[tokio::test]
async fn an_error_of_the_endpoint_says_its_kind_and_nothing_that_was_sent() {
    let rows = [
        ("500 Oops", String::new(), "HTTP 500"),
        ("401 No", format!("bad key {KEY}"), "HTTP 401: check the api_key"),
        ("404 No", format!("{TEXT} {KEY}"), "HTTP 404: check the url and the model"),
        (
            "404 No",
            json!({ "error": { "message": TEXT, "type": "not_found_error", "code": "model_not_found" } }).to_string(),
            "HTTP 404: model_not_found",
        ),
        (
            "400 No",
            json!({ "error": { "message": KEY, "type": "invalid_request_error", "code": null } }).to_string(),
            "HTTP 400: invalid_request_error",
        ),
        ("400 No", json!({ "error": { "type": TEXT, "code": KEY } }).to_string(), "HTTP 400"),
        ("429 No", "x".repeat(MOST + 1), "HTTP 429"),
    ];
    for (status, body, message) in rows {
        let error = fail(answer(status, &body), false).await;
        let SummarizeError::Status { url, .. } = &error else { panic!("{error:?}") };
        assert_eq!(error.to_string(), format!("summarizer: {url}: {message}"));
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1/chat/completions"), "{url}");
    }
}

#[tokio::test]
async fn a_word_that_was_sent_is_not_a_kind() {
    let echo = |word: &str| answer("400 No", &json!({ "error": { "code": word } }).to_string());
    for (word, text, key) in
        [("in_the_text", "what is in_the_text", "k"), ("the_key", "", "all_the_key"), ("new_word", "", "k")]
    {
        let endpoint = Endpoint::start(echo(word), false).await;
        let http = SummaryEndpoint::new(&endpoint.origin, String::new(), Some(key)).unwrap();
        let error = Summarizer::Http(http, LIMITS).summarize(task(text)).await.unwrap_err();
        assert_eq!(error.to_string().contains(word), word == "new_word", "{error}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let location = format!("http://{}/v1/chat/completions", elsewhere.local_addr().unwrap());
        let answer = format!("HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let error = fail(answer, true).await.to_string();
        assert!(
            error.ends_with("it redirects, which is not followed; give the address that it redirects to"),
            "{error}"
        );
    }
    elsewhere.into_std().unwrap().accept().expect_err("nobody came: accepting would have to wait");
}

#[tokio::test]
async fn what_is_no_completion_is_an_error() {
    let no_content = "the answer is not a chat completion: it has no text in choices[0].message.content";
    let rows = [
        ("", "the answer is not a chat completion: it is not JSON"),
        ("<html>the masked output of a tool</html>", "the answer is not a chat completion: it is not JSON"),
        ("[]", no_content),
        (r#"{"choices": []}"#, no_content),
        (r#"{"choices": [{"text": "the masked output of a tool"}]}"#, no_content),
        (r#"{"choices": [{"message": {"content": ["the masked output of a tool"]}}]}"#, no_content),
        (r#"{"error": {"message": "the masked output of a tool"}}"#, no_content),
        (r#"{"choices": [{"message": {"content": null}}]}"#, "an empty summary"),
        (r#"{"choices": [{"message": {"content": " \n"}}]}"#, "an empty summary"),
    ];
    for (body, message) in rows {
        let error = fail(answer("200 OK", body), false).await.to_string();
        assert!(error.ends_with(message), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_huge_answer_is_read_only_so_far() {
    let whole = completion(&"x".repeat(MOST));
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(4 * MOST));
    for (answer, hold) in [(whole, false), (endless, true)] {
        let error = fail(answer, hold).await;
        assert_eq!(error.to_string(), "summarizer: an answer of more than 1048576 bytes");
    }
}

#[tokio::test]
async fn a_slow_endpoint_is_waited_for_within_the_limit() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
        let endpoint = Endpoint::start(answer, true).await;
        let limits = SummaryLimits { timeout: Duration::from_millis(100), ..LIMITS };
        let error = endpoint.summarizer(limits).summarize(task(TEXT)).await.unwrap_err();
        assert_eq!(error.to_string(), "summarizer: no summary within 100ms");
    }
}

#[tokio::test]
async fn a_slow_error_is_an_error_all_the_same() {
    let error = fail("HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\n{", true).await;
    assert!(matches!(error, SummarizeError::Status { status: 503, .. }), "{error:?}");
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection() {
    let mut endpoint = Endpoint::start("", true).await;
    let summarizer = endpoint.summarizer(LIMITS);
    {
        let running = summarizer.summarize(task(TEXT));
        tokio::select! {
            ended = running => panic!("{ended:?}"),
            came = endpoint.came.recv() => came.unwrap(),
        }
    }
    // The endpoint ends when the client is gone.
    let request = tokio::time::timeout(LIMITS.timeout, endpoint.request()).await.unwrap();
    assert_eq!(request.body["model"], "small");
}

#[tokio::test]
async fn a_connection_that_fails_or_breaks_is_an_error() {
    let rows = ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "nonsense\r\n\r\n"];
    for answer in rows {
        let error = fail(answer, false).await;
        assert!(matches!(error, SummarizeError::Connect { .. }), "{error:?}");
    }
    // An endpoint without TLS.
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", plain.local_addr().unwrap());
    let summarizer = Summarizer::Http(SummaryEndpoint::new(&url, String::new(), None).unwrap(), LIMITS);
    let (error, ()) = tokio::join!(summarizer.summarize(task(TEXT)), async {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let error = error.unwrap_err();
    assert!(matches!(error, SummarizeError::Connect { .. }), "{error:?}");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let http = SummaryEndpoint::new(&format!("http://{free}/v1"), String::new(), None).unwrap();
    let error = Summarizer::Http(http, LIMITS).summarize(task(TEXT)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("summarizer: http://{free}/v1/chat/completions: connection refused"));
}
