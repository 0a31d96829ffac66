//! Your own decisions: what another component may decide differently, with this crate's decisions as defaults.
//!
//! A crate that depends on this one without its default features overrides what it needs and exports itself:
//!
//! ```
//! use toolgate_guest::decider::{Decider, Gate};
//! use toolgate_guest::execution::{self, Directive, Settings, SettingsError, ToolCall};
//!
//! /// Nobody works at night, and it is always night.
//! struct Night;
//!
//! impl Decider for Night {
//!     type Gate = Closed;
//! }
//!
//! struct Closed(execution::Gate);
//!
//! impl Gate for Closed {
//!     type Execution = execution::Execution;
//!
//!     fn open(settings: Settings) -> Result<Self, SettingsError> {
//!         execution::Gate::new(settings).map(Closed)
//!     }
//!
//!     fn inner(&self) -> &execution::Gate {
//!         &self.0
//!     }
//!
//!     fn begin(&self, call: ToolCall) -> (execution::Execution, Directive) {
//!         let (mut execution, _) = self.0.begin(call);
//!         let refused = execution.refuse("it is night");
//!         (execution, refused)
//!     }
//! }
//!
//! toolgate_guest::export!(Night);
//! ```

use crate::catalog::ExposedTool;
use crate::execution::{self, Directive, Event, OfferNote, Settings, SettingsError, ToolCall};
use crate::filtering::{Access, Decision, Policy, PolicyError};
use crate::lifecycle::{self, Server, Transition};
use crate::naming::NamingStyle;
use crate::rules::{Circumstances, Outlook, RuleNote};
use crate::search::FoundTool;
use crate::types::{Annotations, Tool, ToolRef, Trace};

/// The decisions of a component; the defaults are those of this crate.
///
/// The other functions of world `logic` (names, arguments, texts, masks) are the same in every component.
pub trait Decider: 'static {
    /// The type of its gates.
    type Gate: Gate;

    /// Returns the default settings for these servers.
    fn default_settings(servers: Vec<String>) -> Settings {
        Settings::new(servers)
    }

    /// Decides about one tool, given its server's annotations; it must agree with the gates.
    fn decide(policy: &Policy, tool: &ToolRef, said: Annotations) -> Result<Decision, PolicyError> {
        Ok(Access::new(policy)?.decide(tool, said))
    }

    /// Returns the default settings of a server's lifecycle.
    fn default_policy() -> lifecycle::Policy {
        lifecycle::Policy::default()
    }

    /// Takes one step in a server's lifecycle.
    fn step(server: &Server, event: &lifecycle::Event, policy: &lifecycle::Policy, now_ms: u64) -> Transition {
        lifecycle::step(server, event, policy, now_ms)
    }
}

/// What one agent session may use; the defaults delegate to the inner gate.
pub trait Gate: Sized + 'static {
    /// The type of its calls.
    type Execution: Execution;

    /// Compiles the settings.
    fn open(settings: Settings) -> Result<Self, SettingsError>;

    /// Returns this crate's gate, which holds the rules and the tools.
    fn inner(&self) -> &execution::Gate;

    /// Begins a call.
    fn begin(&self, call: ToolCall) -> (Self::Execution, Directive);

    /// Stores the result of `tools/list`; it replaces the server's last offer.
    fn offer(&self, server: &str, tools: Vec<Tool>) -> Vec<OfferNote> {
        self.inner().offer(server, tools)
    }

    /// Forgets the server's tools.
    fn withdraw(&self, server: &str) {
        self.inner().withdraw(server);
    }

    /// Lists the tools that may be used, in the given naming style and in the order of the servers; with circumstances,
    /// without tools of which rules refuse every call.
    fn tools(&self, style: &NamingStyle, circumstances: Option<&Circumstances>) -> Vec<ExposedTool> {
        self.inner().tools(style, circumstances)
    }

    /// Finds tools that may be used, the best first; with circumstances, without tools of which rules refuse every call.
    fn search(&self, query: &str, limit: usize, circumstances: Option<&Circumstances>) -> Vec<FoundTool> {
        self.inner().search(query, limit, circumstances)
    }

    /// Says what rules do with calls of a tool before there are arguments.
    fn foresee(&self, tool: &ToolRef, circumstances: &Circumstances) -> Outlook {
        self.inner().foresee(tool, circumstances)
    }

    /// Finds probable mistakes in rules, given the tools that are offered.
    fn check_rules(&self) -> Vec<RuleNote> {
        self.inner().check_rules()
    }

    /// Reports whether the gate may use anything of a server.
    fn selects(&self, server: &str) -> bool {
        self.inner().selects(server)
    }

    /// Reports whether the gate may use what a server has besides tools.
    fn admits(&self, server: &str) -> bool {
        self.inner().admits(server)
    }

    /// Masks any JSON from a server in the way that its results are masked.
    fn mask_json(&self, server: &str, text: &str) -> String {
        self.inner().mask_json(server, text)
    }
}

/// A running call.
pub trait Execution: 'static {
    /// Takes an event and returns the next directive; after `Done`, it returns `Done` again.
    fn next(&mut self, event: Event) -> Directive;

    /// Returns the trace so far.
    fn trace(&self) -> Trace;
}

/// The decisions of this crate.
#[derive(Debug)]
pub enum DefaultDecider {}

impl Decider for DefaultDecider {
    type Gate = execution::Gate;
}

impl Gate for execution::Gate {
    type Execution = execution::Execution;

    fn open(settings: Settings) -> Result<Self, SettingsError> {
        execution::Gate::new(settings)
    }

    fn inner(&self) -> &execution::Gate {
        self
    }

    fn begin(&self, call: ToolCall) -> (execution::Execution, Directive) {
        self.begin(call)
    }
}

impl Execution for execution::Execution {
    fn next(&mut self, event: Event) -> Directive {
        self.next(event)
    }

    fn trace(&self) -> Trace {
        self.trace()
    }
}
