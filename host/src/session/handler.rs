//! Handlers of servers' questions: roots, sampling and elicitation.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::era::Era;
use crate::failure::RpcError;
use crate::json::to_raw;
use crate::rpc::code::METHOD_NOT_FOUND;
use crate::transport::BoxFuture;

/// Answers servers' questions to the client. One handler serves both eras: a question may come as a request or in a
/// result that needs input.
pub trait Handler: Send + Sync + 'static {
    /// Returns what this handler can answer, which servers learn as client capabilities.
    fn topics(&self) -> Topics;

    /// Answers one question with the `result` of the protocol, or an error.
    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>>;

    /// Returns the callers that the server of this connection works for now, as far as known.
    fn active_callers(&self, connection: u64) -> ActiveCallers {
        let _ = connection;
        ActiveCallers::Unknown
    }

    /// Handles a server's notice that its tools changed (`notifications/tools/list_changed`), before any later message of
    /// the server is read.
    fn tools_changed(&self) {}

    /// Handles a server's notice that a person has completed an elicitation at its URL
    /// (`notifications/elicitation/complete`).
    fn elicitation_completed(&self, connection: u64, elicitation: &str) {
        let _ = (connection, elicitation);
    }
}

/// The callers that a server works for at one moment, who may see what it logs then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ActiveCallers {
    /// No known caller.
    #[default]
    Unknown,
    /// This principal alone.
    One(Arc<str>),
    /// This principal alone, which has stopped waiting.
    Abandoned(Arc<str>),
    /// Several, and it is unknown which one is concerned.
    Several,
}

/// The topics that a handler can answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Topics {
    /// Folders that the server may use (`roots/list`).
    pub roots: bool,
    /// Whether servers of the initialize era are notified when the roots change.
    pub roots_changed: bool,
    /// Completions of a model (`sampling/createMessage`).
    pub sampling: bool,
    /// Input of a person in a form (`elicitation/create`).
    pub elicitation: bool,
    /// Input of a person at a URL of the server.
    pub url_elicitation: bool,
}

/// A question of a server.
#[derive(Debug, Clone)]
pub struct ServerQuestion {
    /// The configured id of the server; empty if the session has no configuration.
    pub server: String,
    /// Distinguishes the connections of configured servers.
    pub connection: u64,
    /// The topic.
    pub topic: Topic,
    /// The `params` of the question, as the server wrote them.
    pub params: Box<RawValue>,
}

impl ServerQuestion {
    /// Creates a question of a session, which does not know its server's id and connection.
    pub(crate) fn new(topic: Topic, params: Box<RawValue>) -> Self {
        ServerQuestion { server: String::new(), connection: 0, topic, params }
    }
}

/// The topic of a question.
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
    /// Returns the method of the topic.
    pub fn method(self) -> &'static str {
        match self {
            Topic::Roots => "roots/list",
            Topic::Sampling => "sampling/createMessage",
            Topic::Elicitation => "elicitation/create",
        }
    }

    /// Returns the client capability for the topic.
    pub fn capability(self) -> &'static str {
        match self {
            Topic::Roots => "roots",
            Topic::Sampling => "sampling",
            Topic::Elicitation => "elicitation",
        }
    }

    /// Returns the topic of a method, if it has one.
    pub fn of(method: &str) -> Option<Self> {
        [Topic::Roots, Topic::Sampling, Topic::Elicitation].into_iter().find(|topic| topic.method() == method)
    }
}

/// A handler without roots, model or person.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullHandler;

impl Handler for NullHandler {
    fn topics(&self) -> Topics {
        Topics::default()
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let answer = match question.topic {
            // Without a person the answer is `decline`, so that the tool can go on.
            Topic::Elicitation => Ok(to_raw(&serde_json::json!({"action": "decline"}))),
            Topic::Roots => Err(RpcError::new(METHOD_NOT_FOUND, "this client has no roots")),
            Topic::Sampling => Err(RpcError::new(METHOD_NOT_FOUND, "this client has no model to sample")),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A handler that declares topics and declines every question, to find out what servers offer to such a client.
#[derive(Debug, Clone, Copy)]
pub struct DecliningHandler(pub Topics);

impl Handler for DecliningHandler {
    fn topics(&self) -> Topics {
        self.0
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        NullHandler.answer(question)
    }
}

impl Topics {
    /// All topics, which a gateway declares to its servers, because any of its clients may be able to answer.
    pub const ALL: Topics =
        Topics { roots: true, roots_changed: true, sampling: true, elicitation: true, url_elicitation: true };

    /// Returns the client capabilities as JSON.
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
            // Older servers know no kinds of elicitation, and an empty object means forms in every version.
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
