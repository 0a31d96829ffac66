//! A brain of one's own: what the component of somebody else may decide otherwise, and who decides the rest.
//!
//! A crate that depends on this one without its default features says where it differs, and exports itself:
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
//!     fn within(&self) -> &execution::Gate {
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
use crate::execution::{self, Directive, Event, OfferNote, Outlook, Settings, SettingsError, ToolCall};
use crate::filtering::{Access, Decision, Policy, PolicyError};
use crate::lifecycle::{self, Server, Transition};
use crate::naming::NamingStyle;
use crate::types::{Annotations, Tool, ToolRef, Trace};

/// What a component decides on its own; what it leaves out is decided as in this crate.
///
/// The other functions of world `logic` are plain tools (names, arguments, texts, masks), which are the same in every brain.
pub trait Decider: 'static {
    /// The gates that it opens.
    type Gate: Gate;

    /// The settings where nothing is said, for these servers.
    fn default_settings(servers: Vec<String>) -> Settings {
        Settings::new(servers)
    }

    /// Decides on one tool, with what its server says of it. It must agree with the gates.
    fn decide(policy: &Policy, tool: &ToolRef, said: Annotations) -> Result<Decision, PolicyError> {
        Ok(Access::new(policy)?.decide(tool, said))
    }

    /// The life of a server where nothing is said.
    fn default_policy() -> lifecycle::Policy {
        lifecycle::Policy::default()
    }

    /// Takes a server one step on in its life.
    fn step(server: &Server, event: &lifecycle::Event, policy: &lifecycle::Policy, now_ms: u64) -> Transition {
        lifecycle::step(server, event, policy, now_ms)
    }
}

/// What one agent session may use; what it leaves out is decided by the gate within.
pub trait Gate: Sized + 'static {
    /// The calls that it begins.
    type Execution: Execution;

    /// Compiles the settings.
    fn open(settings: Settings) -> Result<Self, SettingsError>;

    /// The gate of this crate that knows the rules and the offers.
    fn inner(&self) -> &execution::Gate;

    /// Begins a call.
    fn begin(&self, call: ToolCall) -> (Self::Execution, Directive);

    /// Begins a call, and says all of it at once where that can be: a gate that begins calls in its own way need not.
    fn foresee(&self, call: ToolCall) -> Outlook<Self::Execution> {
        let (execution, directive) = self.begin(call);
        Outlook::Started(execution, directive)
    }

    /// Takes what `tools/list` said; it replaces the server's last offer.
    fn offer(&self, server: &str, tools: Vec<Tool>) -> Vec<OfferNote> {
        self.inner().offer(server, tools)
    }

    /// Forgets the server's offer.
    fn withdraw(&self, server: &str) {
        self.inner().withdraw(server);
    }

    /// The tools that may be used, in the given style, in the order of the servers.
    fn tools(&self, style: &NamingStyle) -> Vec<ExposedTool> {
        self.inner().tools(style)
    }

    /// Whether the gate may have what a server has beside its tools.
    fn admits(&self, server: &str) -> bool {
        self.inner().admits(server)
    }

    /// Masks any JSON that a server wrote as its results are masked.
    fn mask_json(&self, server: &str, text: &str) -> String {
        self.inner().mask_json(server, text)
    }
}

/// A call under way.
pub trait Execution: 'static {
    /// Takes what happened and says what to do next. After `Done` it says `Done` again.
    fn next(&mut self, event: Event) -> Directive;

    /// How it was decided so far.
    fn trace(&self) -> Trace;
}

/// The brain of this crate.
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

    fn foresee(&self, call: ToolCall) -> Outlook<execution::Execution> {
        self.foresee(call)
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

/// Makes the crate that calls it a component of world `logic` with this brain; built natively, it does nothing.
#[macro_export]
macro_rules! export {
    ($brain:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::export::Component<$brain>;
            $crate::export::bindings::export! { Exported with_types_in $crate::export::bindings }
        };
    };
}
