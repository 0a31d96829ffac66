//! Tests a transport that fails in every way at every moment: the client ends each call as the host's loop would.

use std::sync::{Arc, Mutex};

use toolgate::decide::Decide;
use toolgate::extension::bindings::toolgate::client::transport::Failed;
use toolgate::logic::Supervisor;
use toolgate::logic::types::execution::{self, Code, Directive, Event, Settings, ToolResult};
use toolgate::logic::types::{Annotations, Failure, HttpFailure, Phase, RpcFailure, Tool};
use toolgate_tests::client::{Answer, House, Wish, call, house};

/// When the transport fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Never,
    Listing,
    Request,
    Reconnecting,
    SecondRequest,
}

/// A transport that fails at one moment, and notes what was wanted of it.
#[derive(Clone)]
struct Script {
    moment: Moment,
    failed: Failed,
    read_only: bool,
    wishes: Arc<Mutex<Vec<Wish>>>,
}

impl Script {
    fn answer(&self, wish: &Wish) -> Answer {
        let mut wishes = self.wishes.lock().unwrap();
        wishes.push(wish.clone());
        let calls = wishes.iter().filter(|wish| is(wish, "tools/call")).count();
        let moment = match wish {
            wish if is(wish, "tools/list") => Moment::Listing,
            Wish::Request { .. } if calls == 1 => Moment::Request,
            Wish::Request { .. } => Moment::SecondRequest,
            Wish::Reconnect(_) => Moment::Reconnecting,
            Wish::Wait => Moment::Never,
        };
        if moment == self.moment && moment != Moment::Never {
            return Err(self.failed.clone());
        }
        match moment {
            Moment::Listing => {
                let hint = self.read_only;
                Ok(format!(r#"{{"tools":[{{"name":"x","annotations":{{"readOnlyHint":{hint}}}}}]}}"#))
            }
            // What is to fail later needs a reason to be tried.
            Moment::Request if matches!(self.moment, Moment::Reconnecting | Moment::SecondRequest) => {
                Err(Failed { failure: Failure::Closed, phase: Phase::NotSent })
            }
            Moment::Request | Moment::SecondRequest => {
                Ok(r#"{"content":[{"type":"text","text":"hello"}],"isError":false}"#.to_owned())
            }
            Moment::Reconnecting | Moment::Never => Ok(String::new()),
        }
    }
}

fn is(wish: &Wish, wanted: &str) -> bool {
    matches!(wish, Wish::Request { method, .. } if method == wanted)
}

/// Every kind of failure.
fn failures() -> Vec<Failure> {
    let http = |status, session, challenge, retry_after_ms| {
        Failure::Http(HttpFailure { status, session, challenge, retry_after_ms })
    };
    vec![
        Failure::Cancelled,
        Failure::Timeout,
        Failure::Connect("refused".to_owned()),
        Failure::Closed,
        Failure::Exited(Some(3)),
        Failure::Exited(None),
        http(401, false, true, None),
        http(403, false, true, None),
        http(403, false, false, None),
        http(404, true, false, None),
        http(429, false, false, Some(1_000)),
        http(503, false, false, None),
        Failure::Rpc(RpcFailure { code: -32000, message: "no".to_owned() }),
        Failure::Protocol("nonsense".to_owned()),
        Failure::QueueFull("builds".to_owned()),
        Failure::NeedsAuth("log in".to_owned()),
        Failure::RestartInProgress,
        Failure::RestartFailed("it did not start".to_owned()),
        Failure::RulesUnavailable("the store cannot be reached".to_owned()),
    ]
}

/// What a host of world `logic` does, with the same transport.
fn native(logic: &mut Supervisor, settings: &Settings, script: &Script) -> ToolResult {
    let gate = logic.open_gate(settings).unwrap().unwrap();
    let (execution, mut directive) = logic.begin(gate, call("1", "a.x", "")).unwrap();
    let result = loop {
        let said = |answer: Answer, event: fn(String) -> Event| match answer {
            Ok(answer) => event(answer),
            Err(Failed { failure, phase }) => Event::Failed(execution::Failed { failure, phase }),
        };
        let event = match directive {
            Directive::Done(result) => break result,
            Directive::Connect(_) => {
                let request =
                    Wish::Request { server: "a".to_owned(), method: "tools/list".to_owned(), params: "{}".to_owned() };
                let listed = script.answer(&request);
                if listed.is_ok() {
                    let read_only = Some(script.read_only);
                    let annotations = Annotations { read_only, destructive: None, idempotent: None, open_world: None };
                    let tool = Tool { name: "x".to_owned(), description: None, input_schema: None, annotations };
                    logic.offer(gate, "a", &[tool]).unwrap();
                }
                said(listed, |_| Event::Connected)
            }
            Directive::Request(execution::Request { tool, arguments, .. }) => {
                let params = toolgate::rpc::call_params(&tool.tool, &arguments);
                let wish = Wish::Request { server: tool.server, method: "tools/call".to_owned(), params };
                said(script.answer(&wish), Event::Answered)
            }
            Directive::Reconnect(server) => said(script.answer(&Wish::Reconnect(server)), |_| Event::Reconnected),
            Directive::Reauthenticate(server) => {
                said(script.answer(&Wish::Reconnect(server)), |_| Event::Authenticated)
            }
            Directive::Wait(_) => said(script.answer(&Wish::Wait), |_| Event::Waited),
            other => panic!("nobody asks for {other:?}"),
        };
        directive = logic.next(execution, event).unwrap();
    };
    logic.close_gate(gate).unwrap();
    result
}

#[tokio::test]
async fn every_failure_at_every_moment_ends_as_in_the_loop_of_a_host() {
    let house = house();
    let mut logic = toolgate_tests::supervisor();
    let settings = logic.default_settings(&["a".to_owned()]).unwrap();
    let mut codes = Vec::new();
    let moments = [Moment::Never, Moment::Listing, Moment::Request, Moment::Reconnecting, Moment::SecondRequest];
    for moment in moments {
        for failure in failures() {
            for (phase, read_only) in
                [(Phase::NotSent, false), (Phase::NotSent, true), (Phase::Sent, false), (Phase::Sent, true)]
            {
                let row = format!("{failure:?}, {phase:?}, {moment:?}, read-only: {read_only}");
                let failed = Failed { failure: failure.clone(), phase };
                let script = Script { moment, failed, read_only, wishes: Arc::default() };
                let expected = native(&mut logic, &settings, &Script { wishes: Arc::default(), ..script.clone() });
                let result = execute(house, &settings, &script).await;
                assert_eq!(result, expected, "{row}");
                let repeated = script.wishes.lock().unwrap().iter().filter(|wish| is(wish, "tools/call")).count();
                assert!(repeated <= 2, "{row}");
                codes.push(result.code);
            }
        }
    }
    for code in [Code::Ok, Code::OutcomeUnknown, Code::Cancelled, Code::NeedsAuth, Code::QueueFull, Code::RpcError] {
        assert!(codes.contains(&code), "nothing ended as {code:?}");
    }
}

async fn execute(house: &House, settings: &Settings, script: &Script) -> ToolResult {
    let (settings, script) = (settings.clone(), script.clone());
    let (mut store, client) = house
        .open(Arc::new(move |wish| {
            let answer = script.answer(&wish);
            Box::pin(async move { answer })
        }))
        .await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings).await?.expect("good settings");
        executor.call_execute(store, call("1", "a.x", "")).await
    });
    run.await.and_then(|result| result).expect("it does not trap")
}
