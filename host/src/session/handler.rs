//! Who answers when a server asks: roots, a model's words, a person's.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::Era;
use crate::failure::RpcError;
use crate::json::to_raw;
use crate::rpc::code::METHOD_NOT_FOUND;
use crate::transport::BoxFuture;

/// Answers what servers ask of a client. One handler serves both eras: a question may come as a request of the server,
/// or in a result that wants input.
pub trait Handler: Send + Sync + 'static {
    /// What this handler can answer; servers are told, and ask for nothing else if they keep to the protocol.
    fn topics(&self) -> Topics;

    /// Answers one question with the `result` that the protocol wants, or refuses.
    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>>;

    /// For whom the server of this connection works now, as far as this handler knows.
    fn active_callers(&self, connection: u64) -> ActiveCallers {
        let _ = connection;
        ActiveCallers::Unknown
    }

    /// The server of this connection says that a person has done what it asked for at an address of its own
    /// (`notifications/elicitation/complete`).
    fn elicitation_completed(&self, connection: u64, elicitation: &str) {
        let _ = (connection, elicitation);
    }
}

/// For whom a server works at a moment: whose business it is what it logs then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ActiveCallers {
    /// For nobody that is known of.
    #[default]
    Unknown,
    /// For this principal alone.
    One(Arc<str>),
    /// For this principal alone, which has given up waiting.
    Abandoned(Arc<str>),
    /// For several, and nobody knows which of them is meant.
    Several,
}

/// What a handler can answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Topics {
    /// Folders that the server may look at (`roots/list`).
    pub roots: bool,
    /// Servers of the initialize era hear when these are others.
    pub roots_changed: bool,
    /// Words of a model (`sampling/createMessage`).
    pub sampling: bool,
    /// Words of a person, in a form (`elicitation/create`).
    pub elicitation: bool,
    /// Words of a person, at an address that the server gives.
    pub url_elicitation: bool,
}

/// What a server asks.
#[derive(Debug, Clone)]
pub struct ServerQuestion {
    /// The id of the server, as configured; empty where a session has no configuration.
    pub server: String,
    /// Tells the connections of configured servers from each other.
    pub connection: u64,
    /// About what.
    pub topic: Topic,
    /// The `params` of the question, as the server wrote them.
    pub params: Box<RawValue>,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// `roots/list`.
    Roots,
    /// `sampling/createMessage`.
    Sampling,
    /// `elicitation/create`.
    Elicitation,
}

impl Topic {
    /// The method that asks about it.
    pub fn method(self) -> &'static str {
        match self {
            Topic::Roots => "roots/list",
            Topic::Sampling => "sampling/createMessage",
            Topic::Elicitation => "elicitation/create",
        }
    }

    /// The capability of a client that can be asked about it.
    pub fn capability(self) -> &'static str {
        match self {
            Topic::Roots => "roots",
            Topic::Sampling => "sampling",
            Topic::Elicitation => "elicitation",
        }
    }

    /// The topic of a method, if it is one.
    pub fn of(method: &str) -> Option<Self> {
        [Topic::Roots, Topic::Sampling, Topic::Elicitation].into_iter().find(|topic| topic.method() == method)
    }
}

/// Has no roots, no model and no person.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullHandler;

impl Handler for NullHandler {
    fn topics(&self) -> Topics {
        Topics::default()
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let answer = match question.topic {
            // A person who is not there declines; the tool may go on without.
            Topic::Elicitation => Ok(to_raw(&[("action", "decline")].into_iter().collect::<BTreeMap<_, _>>())),
            Topic::Roots => Err(RpcError::new(METHOD_NOT_FOUND, "this client has no roots")),
            Topic::Sampling => Err(RpcError::new(METHOD_NOT_FOUND, "this client has no model to sample")),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Topics {
    /// The capabilities of the client, as the protocol writes them.
    pub fn capabilities(self, era: Era) -> String {
        let mut parts = Vec::new();
        if self.roots {
            let changed = if self.roots_changed && era == Era::Legacy { r#""listChanged":true"# } else { "" };
            parts.push(format!(r#""roots":{{{changed}}}"#));
        }
        if self.sampling {
            parts.push(r#""sampling":{}"#.to_owned());
        }
        if self.elicitation || self.url_elicitation {
            // Older servers know no kinds of elicitation, and an empty object means a form in every version.
            let kinds = match (self.elicitation, self.url_elicitation) {
                (true, false) if era == Era::Legacy => "",
                (true, false) => r#""form":{}"#,
                (false, _) => r#""url":{}"#,
                (true, true) => r#""form":{},"url":{}"#,
            };
            parts.push(format!(r#""elicitation":{{{kinds}}}"#));
        }
        format!("{{{}}}", parts.join(","))
    }
}
