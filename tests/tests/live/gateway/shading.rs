//! Tests a gateway with a shadow policy: its decisions are reported, and no call is affected.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::config;
use toolgate::config::model::Config;
use toolgate::demo::InProcessDemo;
use toolgate::gate;
use toolgate::gateway::client::{ClientFactory, ClientMessage, ClientSink, Principal, SinkError};
use toolgate::gateway::{self, Gateway, Relay};
use toolgate::logic::Component;
use toolgate::record::difference::DifferenceKind;
use toolgate::registry::{self, Registry};
use toolgate::shadow::{Shadow, ShadowCounts, ShadowOptions, ShadowState};
use toolgate::transport::Connect;

use crate::fixtures::{component, faulty, until};

const SERVERS: &str = "servers: {one: {command: none}, two: {command: none}}";

fn parse(yaml: &str) -> Config {
    config::parse(yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right")
}

/// A gateway over two demo servers, with these further settings.
fn gateway(settings: &str) -> Arc<Gateway> {
    gateway_over(parse(&format!("{settings}\n{SERVERS}")))
}

fn gateway_over(config: Config) -> Arc<Gateway> {
    let transports =
        HashMap::from(["one", "two"].map(|id| (id.to_owned(), Arc::new(InProcessDemo) as Arc<dyn Connect>)));
    let relay = Arc::new(Relay::default());
    let options = gateway::GatewayOptions { views: gate::views(&config).into_iter().collect(), ..Default::default() };
    let of_registry = registry::RegistryOptions { handler: Arc::clone(&relay) as _, transports, ..Default::default() };
    let registry = Registry::new(&component(), config, of_registry).expect("the component starts");
    Arc::new(Gateway::new(registry, relay, options))
}

/// Has the gateway try the built-in component with this configuration, or with its own.
fn shade(gateway: &Gateway, yaml: Option<&str>) {
    put(gateway, component(), yaml.map(parse), ShadowOptions::default());
}

fn put(gateway: &Gateway, component: Component, config: Option<Config>, options: ShadowOptions) {
    gateway.set_shadow(Some(Arc::new(Shadow::start(component, config, options).expect("it can be tried"))));
}

/// Nobody listens.
struct Deaf;

impl ClientSink for Deaf {
    fn send(&self, _: String) -> Result<(), SinkError> {
        Err(SinkError::Closed)
    }
}

async fn call(gateway: &Gateway, principal: &str, name: &str, arguments: Value) -> Value {
    let principal = Principal { name: principal.to_owned(), admin: false };
    let client = gateway.stateless_client(&principal, None).expect("it may come in");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let answer = client
        .handle(ClientMessage { message: text.into(), headers: None, sink: Arc::new(Deaf), batch: None })
        .await
        .expect("an answer")
        .text;
    serde_json::from_str(&answer).expect("an answer is JSON")
}

/// Waits until the candidate has been asked about so many calls.
async fn counted(gateway: &Gateway, calls: u64) -> ShadowCounts {
    let shadow = gateway.shadow().expect("there is one");
    let mut counts = ShadowCounts::default();
    until(&format!("the candidate is asked about {calls} calls"), || {
        counts = shadow.report().counts();
        counts.same + counts.different + counts.dropped + counts.failed >= calls
    })
    .await;
    counts
}

/// What was found to differ, the oldest first: the kind, who called what, and why.
fn divergences(gateway: &Gateway) -> Vec<(DifferenceKind, String, String)> {
    let mut all = gateway.shadow().expect("there is one").report().last(100, |_| true);
    all.reverse();
    all.into_iter().map(|one| (one.kind, format!("{} {}", one.principal, one.name), one.rule)).collect()
}

const TOKENS: &str = "gateway: {tokens: [\
    {principal: ann, token: ann-0123456789-token},\
    {principal: bob, token: bob-0123456789-token, servers: [one]},\
    {principal: cat, token: cat-0123456789-token}]}";

/// Who sees everybody's calls.
fn admin() -> Principal {
    Principal { name: "root".to_owned(), admin: true }
}

#[tokio::test]
async fn the_same_logic_in_the_shade_decides_alike() {
    for yaml in [None, Some(format!("{TOKENS}\n{SERVERS}"))] {
        let gateway = gateway(TOKENS);
        shade(&gateway, yaml.as_deref());
        let calls = [
            ("ann", "one__add", json!({"a": 1, "b": 2})),
            ("bob", "one.echo", json!({"text": "hello"})),
            ("ann", "two__echo", json!("text: as a model writes it")),
            ("ann", "one__fail", json!({"message": "no luck"})),
            ("ann", "two__picture", json!({})),
            ("ann", "two__forecast", json!({"city": "Bern"})),
            ("ann", "one__add", json!({"a": "many"})),
            ("ann", "one__nothing", json!({})),
            ("bob", "two__add", json!({"a": 1, "b": 2})),
            ("ann", "nonsense", json!({})),
            ("local", "one__sleep", json!({"seconds": 0})),
        ];
        for (principal, name, arguments) in &calls {
            call(&gateway, principal, name, arguments.clone()).await;
        }
        let counts = counted(&gateway, calls.len() as u64).await;
        assert_eq!(
            counts,
            ShadowCounts { same: calls.len() as u64, ..ShadowCounts::default() },
            "{:?}",
            divergences(&gateway)
        );
        gateway.registry().close().await;
    }
}

#[tokio::test]
async fn what_another_configuration_would_decide_is_told_and_no_call_is_touched() {
    let gateway = gateway(&format!("{TOKENS}\ncheck_arguments: true"));
    let candidate = "\
        check_arguments: false\n\
        masking: {groups: [basic]}\n\
        gateway: {tokens: [{principal: ann, token: ann-0123456789-token}, {principal: bob, token: bob-0123456789-token}]}\n\
        servers: {one: {command: none, deny: [picture], ask: [forecast]}, two: {command: none}}";
    shade(&gateway, Some(candidate));
    let good = |answer: Value| assert!(!answer["result"]["isError"].as_bool().unwrap_or(false), "{answer}");
    good(call(&gateway, "cat", "two__picture", json!({})).await);
    good(call(&gateway, "ann", "one__picture", json!({})).await);
    good(call(&gateway, "ann", "one__forecast", json!({"city": "Bern"})).await);
    let answer = call(&gateway, "ann", "one__echo", json!({"text": "password: s3cret-of-ann"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "password: s3cret-of-ann");
    good(call(&gateway, "ann", "one__echo", json!({"text": "nothing to hide"})).await);
    assert_eq!(call(&gateway, "ann", "one__add", json!({"a": "many"})).await["result"]["isError"], true);
    assert!(call(&gateway, "bob", "two__picture", json!({})).await["error"].is_object());
    good(call(&gateway, "local", "two__picture", json!({})).await);
    let counts = counted(&gateway, 8).await;
    let expected = [
        (DifferenceKind::Denied, "cat two__picture", "no such principal"),
        (DifferenceKind::Denied, "ann one__picture", "denied by `deny: picture`"),
        (DifferenceKind::Approval, "ann one__forecast", "needs approval: matches `ask: forecast`"),
        (DifferenceKind::Masking, "ann one__echo", "the result is masked differently"),
        (DifferenceKind::Arguments, "ann one__add", "the arguments are no longer refused"),
        (DifferenceKind::Allowed, "bob two__picture", r#"name "two__picture" does not identify a tool"#),
    ];
    let expected: Vec<_> =
        expected.map(|(kind, call, rule)| (kind, call.to_owned(), rule.to_owned())).into_iter().collect();
    assert_eq!(divergences(&gateway), expected);
    assert_eq!(counts, ShadowCounts { same: 2, different: 6, ..ShadowCounts::default() });

    let page = gateway.shadow_report(&admin(), 100).body;
    let metrics = gateway.metrics(&admin());
    for what in [
        "toolgate_shadow_running 1",
        "toolgate_shadow_calls_total{outcome=\"different\"} 6",
        "toolgate_shadow_calls_total{outcome=\"same\"} 2",
        "toolgate_shadow_divergences_total{kind=\"denied\"} 2",
        "toolgate_shadow_divergences_total{kind=\"retry\"} 0",
    ] {
        assert!(metrics.contains(what), "no {what} in {metrics}");
    }
    let shown: Value = serde_json::from_str(&page).unwrap();
    assert_eq!((&shown["shadow"]["running"], &shown["shadow"]["kinds"]["denied"]), (&json!(true), &json!(2)));
    assert_eq!(shown["shadow"]["divergences"][0]["kind"], "allowed");
    // Who is no admin sees what is its own, and neither what is tried nor how many calls others make.
    let bob = gateway.shadow_report(&Principal { name: "bob".to_owned(), admin: false }, 100).body;
    let bob = serde_json::from_str::<Value>(&bob).unwrap()["shadow"].take();
    let calls: Vec<_> = bob["divergences"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!((&bob["running"], calls), (&json!(true), vec![&json!("two__picture")]));
    assert_eq!(bob.as_object().unwrap().keys().collect::<Vec<_>>(), ["divergences", "running"]);
    for text in [page, metrics] {
        assert!(!text.contains("s3cret") && !text.contains("-0123456789-token"), "{text}");
    }
    gateway.registry().close().await;
}

#[tokio::test]
async fn a_component_that_keeps_all_out_keeps_nothing_out() {
    let gateway = gateway("");
    put(&gateway, faulty(), None, ShadowOptions::default());
    let answer = call(&gateway, "ann", "one__add", json!({"a": 1, "b": 2})).await;
    assert_eq!(answer["result"]["structuredContent"]["sum"], 3);
    counted(&gateway, 1).await;
    let expected = [(DifferenceKind::Denied, "ann one__add".to_owned(), "faulty: it keeps all out".to_owned())];
    assert_eq!(divergences(&gateway), expected);
    gateway.registry().close().await;
}

#[tokio::test]
async fn one_that_loops_hoards_or_traps_is_cut_off_and_then_switched_off() {
    let gateway = gateway("");
    put(&gateway, faulty(), None, ShadowOptions::default());
    let faults = ["loop", "grow", "panic", "s3cret recurse"];
    for (at, fault) in (1..).zip(faults) {
        let answer = call(&gateway, "ann", "one__echo", json!({"text": fault})).await;
        assert_eq!(answer["result"]["content"][0]["text"], fault);
        let counts = counted(&gateway, at).await;
        assert_eq!(counts, ShadowCounts { failed: at, ..ShadowCounts::default() }, "{fault}");
    }
    // It is asked again as if nothing had happened.
    call(&gateway, "ann", "one__echo", json!({"text": "fine"})).await;
    assert_eq!(counted(&gateway, 5).await, ShadowCounts { failed: 4, different: 1, ..ShadowCounts::default() });
    call(&gateway, "ann", "one__echo", json!({"text": "loop"})).await;
    counted(&gateway, 6).await;
    let report = Arc::clone(gateway.shadow().unwrap().report());
    until("it is switched off", || report.state() != ShadowState::Running).await;
    let ShadowState::Off(why) = report.state() else { unreachable!() };
    assert_eq!(why, "it crashed 5 times; the last time, it did not finish");
    let answer = call(&gateway, "ann", "one__echo", json!({"text": "loop"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "loop");
    assert_eq!(
        report.counts(),
        ShadowCounts { failed: 5, different: 1, ..ShadowCounts::default() },
        "it is not asked any more"
    );
    let page = gateway.shadow_report(&admin(), 100).body;
    assert!(page.contains("it did not finish") && !page.contains("s3cret"), "{page}");
    assert!(gateway.metrics(&admin()).contains("toolgate_shadow_running 0"));
    gateway.registry().close().await;
}

#[tokio::test]
async fn what_there_is_no_room_for_is_left_out_and_counted() {
    let gateway = gateway("");
    put(&gateway, component(), None, ShadowOptions { most_bytes: 0, ..ShadowOptions::default() });
    for _ in 0..5 {
        assert!(call(&gateway, "ann", "one__add", json!({"a": 1, "b": 2})).await["result"].is_object());
    }
    assert_eq!(counted(&gateway, 5).await, ShadowCounts { dropped: 5, ..ShadowCounts::default() });
    assert!(gateway.metrics(&admin()).contains("toolgate_shadow_calls_total{outcome=\"dropped\"} 5"));
    // Without a sample nothing is even looked at.
    put(&gateway, component(), None, ShadowOptions { sample: 0.0, ..ShadowOptions::default() });
    call(&gateway, "ann", "one__add", json!({"a": 1, "b": 2})).await;
    assert_eq!(gateway.shadow().unwrap().report().counts(), ShadowCounts::default());
    gateway.set_shadow(None);
    assert_eq!(gateway.shadow_report(&admin(), 10).body, r#"{"shadow":null}"#);
    assert!(!gateway.metrics(&admin()).contains("toolgate_shadow"));
    gateway.registry().close().await;
}

#[tokio::test]
async fn a_retry_that_the_candidate_would_not_make_is_told() {
    // A server that dies in each call; the tool is said to be safe to repeat.
    let program = env!("CARGO_BIN_EXE_fixture");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls");
    let server = format!(
        "servers: {{shaky: {{command: {program:?}, args: [dies-during, {file:?}], tools: {{echo: {{annotations: {{read_only: true}}}}}}}}}}"
    );
    let gateway = gateway_over(parse(&server));
    shade(&gateway, Some(&format!("retry: never\n{server}")));
    call(&gateway, "local", "shaky__echo", json!({"text": "x"})).await;
    counted(&gateway, 1).await;
    let found = divergences(&gateway);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].2.as_str()), (DifferenceKind::Retry, "the failure is handled differently"));
    gateway.registry().close().await;
}
