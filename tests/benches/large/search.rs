//! Searching among 10,000 tools.

use std::path::Path;
use std::time::Duration;

use toolgate_tests::race::verdict;

use super::clients::Client;
use super::configuration::{MANY_SESSIONS, Size};
use super::servers::Servers;
use super::{Ready, SERVERS, TOOLS, memory, quantile, time};

/// Measures `find_tools` through the gateway.
pub async fn search(folder: &Path) {
    let servers = Servers::start(SERVERS, TOOLS).await;
    let ready = Ready::start(
        folder,
        &servers,
        Size { servers: SERVERS, principals: 0, list: "search", sessions: MANY_SESSIONS },
    )
    .await;
    println!("{SERVERS} servers with {} tools, which are found instead of listed", SERVERS * TOOLS);
    let mut client = Client::connect(ready.gateway.address(), "", false).await;
    time("first list", client.list().await.time);
    memory("memory after it", ready.gateway.memory());
    time("first search", find(&mut client, 0).await);
    memory("memory after it", ready.gateway.memory());
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        times.push(find(&mut client, round).await);
        client.call("s000__list_ticket_0", r#"{"id":"x"}"#).await;
    }
    let (usual, most) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    verdict("search, p50", &format!("{usual:.2?}"), "at most 10 ms", usual <= Duration::from_millis(10));
    verdict("search, p99", &format!("{most:.2?}"), "at most 30 ms", most <= Duration::from_millis(30));
    memory("memory at the end", ready.gateway.memory());
    println!();
}

async fn find(client: &mut Client, round: usize) -> Duration {
    let query = QUERIES[round % QUERIES.len()];
    client.call("find_tools", &format!(r#"{{"query":"{query}"}}"#)).await
}

const QUERIES: [&str; 5] =
    ["list the invoices in billing", "update a ticket", "delete secrets", "deployments of the cluster", "send message"];
const ROUNDS: usize = 200;
