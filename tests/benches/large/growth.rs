//! One principal: what 10,000 tools cost, beside 100.

use std::path::Path;
use std::time::Duration;

use toolgate_tests::race::{verdict, within};

use super::clients::Client;
use super::configuration::{MANY_SESSIONS, Size};
use super::servers::Servers;
use super::{Ready, SERVERS, TOOLS, memory, mib, tell, time};

/// Measures a small and a large gateway.
pub async fn growth(folder: &Path) {
    // The first start of all compiles the component.
    measure(folder, 1).await;
    let few = measure(folder, 2).await;
    let many = measure(folder, SERVERS).await;
    let ready = many.ready.ready;
    verdict("ready with 10,000 tools", &format!("{ready:.2?}"), "at most 3 s", ready <= Duration::from_secs(3));
    for (what, of) in [("first list", 0), ("later list", 1)] {
        let ratio = many.per_tool[of].as_secs_f64() / few.per_tool[of].as_secs_f64();
        within(&format!("{what} per tool, 10,000 against 100"), ratio, 1.5);
    }
    let used = mib(many.memory);
    verdict("memory with 10,000 tools, one principal", &format!("{used:.1} MiB"), "at most 150 MiB", used <= 150.0);
}

/// What a gateway of one principal has shown.
struct Measured {
    ready: Ready,
    /// The processor time per tool of the first list of a client, and of a later one.
    per_tool: [Duration; 2],
    /// The memory at the end.
    memory: usize,
}

async fn measure(folder: &Path, count: usize) -> Measured {
    let servers = Servers::start(count, TOOLS).await;
    let ready =
        Ready::start(folder, &servers, Size { servers: count, principals: 0, list: "all", sessions: MANY_SESSIONS })
            .await;
    let tools = count * TOOLS;
    println!("{count} servers with {tools} tools, one principal");
    ready.tell();
    let mut client = Client::connect(ready.gateway.address(), "", false).await;
    let listed = client.list().await;
    assert_eq!(listed.tools, tools, "all are listed");
    time("very first list", listed.time);
    memory("memory after it", ready.gateway.memory());
    tell("bytes of a tool, as listed", listed.bytes / tools);
    time("first call", client.call("s000__list_ticket_0", r#"{"id":"x"}"#).await);
    let rounds = LISTED / tools;
    let cpu = ready.gateway.cpu();
    for round in 0..rounds {
        let is_modern = round.is_multiple_of(2);
        let mut client = Client::connect(ready.gateway.address(), "", is_modern).await;
        assert_eq!(client.list().await.tools, tools, "all are listed");
    }
    let first = ready.gateway.cpu() - cpu;
    let cpu = ready.gateway.cpu();
    for _ in 0..rounds {
        client.list().await;
    }
    let per_tool = [first, ready.gateway.cpu() - cpu].map(|cpu| cpu / LISTED as u32);
    time("processor time of the first list of a client, per tool", per_tool[0]);
    time("processor time of a later list of a client, per tool", per_tool[1]);
    tell("lists that the gateway asked of a server", servers.lists() / count);
    let mut client = Client::connect(ready.gateway.address(), "", true).await;
    for page in ["/metrics", "/api/v1/servers"] {
        let begun = std::time::Instant::now();
        assert_eq!(client.get(page).await, 200);
        time(&format!("page {page}, {} KiB", client.answered_bytes() >> 10), begun.elapsed());
    }
    let used = ready.gateway.memory();
    memory("memory at the end", used);
    println!();
    Measured { ready, per_tool, memory: used }
}

/// How many tools are listed to measure the time of one.
const LISTED: usize = 100_000;
