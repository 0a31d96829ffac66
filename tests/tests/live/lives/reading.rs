//! Tests resources and prompts of a gate in the library: the same rules, masks and limits as for tools.

use serde_json::Value;
use serde_json::value::RawValue;
use toolgate::gate::{ContentError, Gate, GateView};
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::session::ListKind;

use super::World;

const MASKED: &str = "servers:
  c: {command: FIXTURE, args: [chatty], masking: {groups: [basic]}}
  d: {command: FIXTURE, args: [chatty]}
  broken: {command: no-such-program-of-toolgate}
max_result_bytes: 1KiB
";

fn gate(world: &World, servers: &[(&str, &[&str])]) -> Gate {
    let selected = |(id, tools): &(&str, &[&str])| SelectedServer {
        id: (*id).to_owned(),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
    };
    let selection = Some(servers.iter().map(selected).collect());
    Gate::open(&world.registry, GateView { selection, ..GateView::default() }).expect("the gate opens")
}

#[tokio::test]
async fn a_gate_lists_and_reads_what_its_servers_have_masked_and_cut() {
    let world = World::new(MASKED);
    let gate = gate(&world, &[("c", &[]), ("broken", &[])]);
    let found = gate.list(ListKind::Resources).await.unwrap();
    assert!(!found.items.is_empty() && found.items.iter().all(|item| item.server == "c"), "{found:?}");
    assert!(found.items.iter().all(|item| !item.item.get().contains("hunter2")), "{found:?}");
    assert_eq!(found.failed.iter().map(|(server, _)| server.as_str()).collect::<Vec<_>>(), ["broken"]);

    let secret = gate.read_resource("chatty://secret", None).await.unwrap();
    assert_eq!(secret.server, "c");
    assert!(secret.result.get().contains("[MASKED_PASSWORD]"), "{}", secret.result);
    let big = gate.read_resource("chatty://big", Some("c")).await.unwrap();
    let big = big.result.get();
    assert!(big.len() < 2000 && big.contains("[TRUNCATED: ") && big.contains(r#""odd":1.5"#), "{big}");
    let missing = gate.read_resource("chatty://nothing", None).await.unwrap_err();
    assert_eq!(missing.to_string(), "no server has \"chatty://nothing\"; these servers could not be asked: broken");
}

#[tokio::test]
async fn a_prompt_is_cut_and_what_a_gate_may_not_use_is_not_there() {
    let world = World::new(MASKED);
    let whole = gate(&world, &[("c", &[])]);
    let prompts = whole.list(ListKind::Prompts).await.unwrap();
    let name: Value = serde_json::from_str(prompts.items[0].item.get()).unwrap();
    let none: Box<RawValue> = serde_json::from_str("{}").unwrap();
    let prompt = whole.prompt("c", name["name"].as_str().unwrap(), &none).await.unwrap();
    assert!(prompt.result.get().contains("[TRUNCATED: "), "{}", prompt.result);

    // The whole server must be selected, as for clients of a gateway.
    let part = gate(&world, &[("c", &["some_tool"])]);
    assert!(part.list(ListKind::Resources).await.unwrap().items.is_empty());
    for server in [None, Some("c"), Some("d"), Some("nobody")] {
        let refused = part.read_resource("chatty://secret", server).await.unwrap_err();
        assert!(matches!(refused, ContentError::NotFound { .. }), "{server:?}: {refused}");
    }
    assert!(matches!(part.prompt("c", "x", &none).await.unwrap_err(), ContentError::NotFound { .. }));
}
