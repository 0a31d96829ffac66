//! 500 principals in ten sets of equal rights, and 2,000 clients.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use toolgate_tests::race::verdict;

use super::clients::Client;
use super::configuration::{MANY_SESSIONS, SETS, Size, add_token, sees, token};
use super::servers::Servers;
use super::{Ready, SERVERS, TOOLS, memory, mib, quantile, tell, time};

/// Measures a gateway with more and more clients.
pub async fn crowd(folder: &Path) {
    let servers = Servers::start(SERVERS, TOOLS).await;
    let size = Size { servers: SERVERS, principals: PRINCIPALS, list: "all", sessions: MANY_SESSIONS };
    let ready = Ready::start(folder, &servers, size).await;
    let gateway = &ready.gateway;
    println!("{SERVERS} servers with {} tools, {PRINCIPALS} principals in {SETS} sets", SERVERS * TOOLS);
    ready.tell();
    list_by_principals(&ready).await;
    let mut clients = connect(&ready).await;
    calls("calls with no other clients", &mut clients[..ACTIVE]).await;
    lists(&ready, &servers, &mut clients).await;
    calls(&format!("calls of {ACTIVE} of {} clients", clients.len()), &mut clients[..ACTIVE]).await;
    memory("memory", gateway.memory());
    changes(&ready, &servers, &mut clients).await;
    calls("calls after the change", &mut clients[..ACTIVE]).await;
    reload(&ready, &folder.join(format!("{SERVERS}-{PRINCIPALS}-all-{MANY_SESSIONS}.yaml")), &mut clients).await;
    calls("calls after the reload", &mut clients[..ACTIVE]).await;
    memory("memory at the end", gateway.memory());
}

/// Has one client of each set list its tools, and then one of each principal.
async fn list_by_principals(ready: &Ready) {
    let gateway = &ready.gateway;
    let mut times = Vec::new();
    for principal in 0..SETS {
        times.push(ready.connect(principal, true).await.list().await.time);
    }
    time("first list of a set, median", quantile(&mut times, 0.5));
    memory("memory after the lists of all sets", gateway.memory());
    let mut times = Vec::new();
    for principal in SETS..PRINCIPALS {
        times.push(ready.connect(principal, true).await.list().await.time);
    }
    time("first list of a principal, median", quantile(&mut times, 0.5));
    time("first list of a principal, p99", quantile(&mut times, 0.99));
    let used = mib(gateway.memory());
    let figure = format!("{used:.1} MiB");
    verdict("memory after the lists of all principals", &figure, "at most 400 MiB", used <= 400.0);
}

/// Connects all clients, half of them of each era.
async fn connect(ready: &Ready) -> Vec<Client> {
    let (begun, before) = (Instant::now(), ready.gateway.memory());
    let mut clients = Vec::new();
    for client in 0..clients_wanted() {
        clients.push(ready.connect(client % PRINCIPALS, client / PRINCIPALS % 2 == 1).await);
    }
    time(&format!("connecting {} clients", clients.len()), begun.elapsed());
    let more = ready.gateway.memory().saturating_sub(before);
    tell("memory of a client that is connected", format!("{:.1} KiB", more as f64 / 1024.0 / clients.len() as f64));
    clients
}

/// Has all clients list their tools.
async fn lists(ready: &Ready, servers: &Servers, clients: &mut [Client]) {
    let (asked, begun, cpu) = (servers.lists(), Instant::now(), ready.gateway.cpu());
    let before = ready.gateway.memory();
    let mut times = Vec::new();
    // A connection that rests for two minutes is closed, so the last ones must not wait for too long.
    for some in clients.chunks_mut(4) {
        times.extend(join_all(some.iter_mut().map(Client::list)).await.into_iter().map(|listed| listed.time));
    }
    time("all clients have listed, four at a time", begun.elapsed());
    time("first list of a client, p50", quantile(&mut times, 0.5));
    time("first list of a client, p99", quantile(&mut times, 0.99));
    let cpu = (ready.gateway.cpu() - cpu) / clients.len() as u32;
    time("processor time of a first list", cpu);
    tell("lists that the gateway asked of all servers for it", servers.lists() - asked);
    let more = ready.gateway.memory().saturating_sub(before);
    tell("memory of a client that has listed", format!("{:.1} KiB", more as f64 / 1024.0 / clients.len() as f64));
}

/// Has some clients call tools side by side.
async fn calls(what: &str, clients: &mut [Client]) {
    let run = clients.iter_mut().map(|client| async {
        let mut times = Vec::new();
        for _ in 0..CALLS {
            times.push(client.call("s000__list_ticket_0", r#"{"id":"x"}"#).await);
        }
        times
    });
    let mut times: Vec<_> = join_all(run).await.into_iter().flatten().collect();
    time(&format!("{what}, p50"), quantile(&mut times, 0.5));
    time(&format!("{what}, p99"), quantile(&mut times, 0.99));
}

/// Has a server change its tools while all clients listen.
async fn changes(ready: &Ready, servers: &Servers, clients: &mut [Client]) {
    let before = ready.gateway.memory();
    let mut listeners = Vec::new();
    for client in clients.iter_mut() {
        listeners.push(client.listen().await);
    }
    let more = ready.gateway.memory().saturating_sub(before);
    tell("memory of a client that listens", format!("{:.1} KiB", more as f64 / 1024.0 / clients.len() as f64));
    // Whatever the subscriptions have begun is done when the gateway is quiet.
    settle(ready).await;
    for (server, era) in [(2, "2026-07-28"), (5, "2025-06-18")] {
        let (begun, cpu) = (Instant::now(), ready.gateway.cpu());
        servers.grow(server);
        // The others do not see this server, and hear nothing.
        let seeing = listeners.iter_mut().enumerate().filter(|(client, _)| sees(client % SETS, server));
        let heard = seeing.map(|(_, listener)| listener.hear("tools/list_changed"));
        let mut times: Vec<_> = join_all(heard).await.into_iter().map(|heard| heard - begun).collect();
        settle(ready).await;
        println!("a server of {era} changes, and {} clients hear it", times.len());
        time("  the median client", quantile(&mut times, 0.5));
        time("  the last client", quantile(&mut times, 1.0));
        time("  processor time of the gateway", ready.gateway.cpu() - cpu);
    }
    memory("memory after the changes", ready.gateway.memory());
}

/// Reloads the configuration with another token while clients call.
async fn reload(ready: &Ready, file: &Path, clients: &mut [Client]) {
    add_token(file, PRINCIPALS);
    let mut newcomer = Client::connect(ready.gateway.address(), &token(PRINCIPALS), true).await;
    let (done, cpu, begun) = (Arc::new(AtomicBool::new(false)), ready.gateway.cpu(), Instant::now());
    let known = async {
        ready.gateway.hang_up();
        while newcomer.status().await == 401 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let time = begun.elapsed();
        // All sets meet the new configuration.
        tokio::time::sleep(Duration::from_secs(1)).await;
        done.store(true, Ordering::Relaxed);
        time
    };
    let run = clients[..SETS].iter_mut().map(|client| async {
        let mut longest = Duration::ZERO;
        while !done.load(Ordering::Relaxed) {
            longest = longest.max(client.call("s000__list_ticket_0", r#"{"id":"x"}"#).await);
        }
        longest
    });
    let (known, longest) = tokio::join!(known, join_all(run));
    time("reload until another token is known", known);
    time("longest call meanwhile", longest.into_iter().max().unwrap_or_default());
    settle(ready).await;
    time("processor time of the gateway, with these calls", ready.gateway.cpu() - cpu);
    memory("memory after the reload", ready.gateway.memory());
}

/// Waits until the gateway does nothing for a while.
async fn settle(ready: &Ready) {
    loop {
        let before = ready.gateway.cpu();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if ready.gateway.cpu() - before <= Duration::from_millis(20) {
            return;
        }
    }
}

/// How many clients there are; `CLIENTS` may say otherwise.
fn clients_wanted() -> usize {
    std::env::var("CLIENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(2000)
}

const PRINCIPALS: usize = 500;
/// How many clients call at the same time, and how often each.
const ACTIVE: usize = 64;
const CALLS: usize = 50;
