//! The whole client over a transport of the host: the same state machine, and the loop that carries out its directives.
//!
//! It is exported as world `client`. It waits only for its transport, and its calls run concurrently in one thread.

mod discovery;
mod join;
mod listing;
mod memory;
mod running_calls;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

use crate::catalog::{ExposedTool, FailedServer};
use crate::execution::{Condensed, Directive, Event, Failed, Settings, SettingsError, ToolCall, ToolResult};
use crate::json;
use crate::naming::NamingStyle;
use crate::types::{ToolRef, WaitRange};
use discovery::ToolDiscovery;
use join::join_all;
use memory::Memory;
use running_calls::ClientCalls;

/// How the client reaches servers; dropping a future cancels what it does.
pub trait Transport {
    /// Sends a request and returns the `result` member of the response, as JSON.
    fn request(&self, server: &str, method: &str, params: String) -> impl Future<Output = Result<String, Failed>>;
    /// Opens a new session, with a new authorization if the server refused the old one.
    fn reconnect(&self, server: &str) -> impl Future<Output = Result<(), Failed>>;
    /// Waits for a time from this range.
    fn wait(&self, range: WaitRange) -> impl Future<Output = ()>;
}

/// A client of many servers.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
    /// The current gate, and which servers have listed their tools.
    discovery: RefCell<Rc<ToolDiscovery>>,
    calls: ClientCalls,
    memory: RefCell<Memory>,
}

/// The tools that may be used, and the servers that failed to list theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The tools, in the order of the servers.
    pub tools: Vec<ExposedTool>,
    /// Servers whose tools are missing here, and why.
    pub failed: Vec<FailedServer>,
}

impl<T: Transport> Client<T> {
    /// Creates a client without servers.
    pub fn new(transport: T) -> Self {
        let nothing = ToolDiscovery::new(Settings::new([])).expect("a gate without servers is legal");
        Client {
            transport,
            discovery: RefCell::new(Rc::new(nothing)),
            calls: ClientCalls::default(),
            memory: RefCell::default(),
        }
    }

    /// Replaces the settings; running calls keep the old ones.
    pub fn configure(&self, settings: Settings) -> Result<(), SettingsError> {
        *self.discovery.borrow_mut() = Rc::new(ToolDiscovery::new(settings)?);
        Ok(())
    }

    /// Asks servers for their tools if they have not listed them yet, and lists all tools that may be used.
    pub async fn list_tools(&self, style: &NamingStyle) -> Listing {
        let offers = self.discovery();
        let silent = offers.gate().servers_without_offer();
        let asked = join_all(silent.iter().map(|server| offers.ensure_offer(&self.transport, server)).collect()).await;
        let failed = silent.into_iter().zip(asked).filter_map(|(server, outcome)| {
            let Failed { failure, .. } = outcome.err()?;
            let reason = offers.gate().describe(&server, &failure);
            Some(FailedServer { server, reason })
        });
        let failed = failed.collect();
        let tools = offers.gate().tools(style, Some(&self.memory.borrow().circumstances()));
        Listing { tools, failed }
    }

    /// Calls a tool; a failure is also a result.
    pub async fn execute(&self, call: ToolCall) -> ToolResult {
        let offers = self.discovery();
        let running = self.calls.enter(&call.id);
        let (mut execution, mut directive) = offers.gate().begin(call);
        let labels = self.memory.borrow().labels();
        loop {
            let event = match directive {
                Directive::Done(result) => {
                    self.memory.borrow_mut().learn_from(&result, &labels);
                    return result;
                }
                directive => running.unless_cancelled(self.carry_out(&offers, directive)).await,
            };
            directive = execution.next(event.unwrap_or(Event::Cancelled));
        }
    }

    /// Cancels the calls with this id and reports whether there were any.
    pub fn cancel(&self, call_id: &str) -> bool {
        self.calls.cancel(call_id)
    }

    /// Forgets the tools of a server, so that it is asked again.
    pub fn withdraw(&self, server: &str) {
        self.discovery().withdraw(server);
    }

    fn discovery(&self) -> Rc<ToolDiscovery> {
        Rc::clone(&self.discovery.borrow())
    }

    async fn carry_out(&self, offers: &ToolDiscovery, directive: Directive) -> Event {
        let outcome = match directive {
            Directive::Connect(servers) => self.connect(offers, &servers).await.map(|()| Event::Connected),
            Directive::Request(request) => {
                self.memory.borrow_mut().learn(request.learned.as_ref());
                let ToolRef { server, tool } = &request.tool;
                let answer = self.transport.request(server, "tools/call", call_params(tool, &request.arguments)).await;
                answer.map(Event::Answered)
            }
            Directive::Reconnect(server) => self.transport.reconnect(&server).await.map(|()| Event::Reconnected),
            // The new session comes with a new authorization, or fails with `needs-auth`.
            Directive::Reauthenticate(server) => self.transport.reconnect(&server).await.map(|()| Event::Authenticated),
            Directive::Wait(range) => {
                self.transport.wait(range).await;
                Ok(Event::Waited)
            }
            Directive::Circumstances(_) => Ok(Event::Circumstances(self.memory.borrow().circumstances())),
            Directive::Count(rules) => Ok(Event::Counted(self.memory.borrow_mut().count(rules))),
            Directive::Ask(_) => Ok(Event::Unasked),
            Directive::Condense(_) => Ok(Event::Condensed(Condensed::default())),
            // The loop in `execute` returns before this.
            Directive::Done(_) => Ok(Event::Cancelled),
        };
        outcome.unwrap_or_else(Event::Failed)
    }

    /// Asks several servers for their tools concurrently; the call may go on if one of them answers.
    async fn connect(&self, offers: &ToolDiscovery, servers: &[String]) -> Result<(), Failed> {
        let asked = join_all(servers.iter().map(|server| offers.ensure_offer(&self.transport, server)).collect()).await;
        let mut failures = asked.into_iter().filter_map(Result::err);
        match failures.next() {
            Some(failed) if failures.count() + 1 == servers.len() => Err(failed),
            _ => Ok(()),
        }
    }
}

/// Returns the `params` of `tools/call`.
fn call_params(tool: &str, arguments: &str) -> String {
    let mut params = String::from("{\"name\":");
    json::write_string(tool, &mut params);
    params + ",\"arguments\":" + arguments + "}"
}
