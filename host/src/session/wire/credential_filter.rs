//! Removes credentials from what a server sends, before anything else reads it.
//!
//! Everything that leaves the gate (to a client, a file, a summarizer, an embedder) has passed through here, so later
//! code need not know what is secret.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

use crate::config::secrets::{Credentials, Secrets};
use crate::failure::{Failure, RequestError};
use crate::rpc::Reply;
use crate::transport::authorize::Authorizer;
use crate::transport::endpoint::Endpoint;

/// Removes credentials from the messages of one server.
#[derive(Default)]
pub(super) struct CredentialFilter {
    /// The values that this server was given; errors show none of them.
    own: Secrets,
    authorize: Option<Authorizer>,
    /// The credentials of all servers, including those learned later; nothing shows them.
    all: Arc<Mutex<Secrets>>,
}

impl CredentialFilter {
    pub(super) fn new(endpoint: &Endpoint, all: Arc<Mutex<Secrets>>) -> Self {
        let own = endpoint.secrets();
        all.lock().unwrap_or_else(PoisonError::into_inner).merge(&own);
        let authorize = endpoint.site().and_then(|site| site.authorize.clone());
        CredentialFilter { own, authorize, all }
    }

    /// Removes credentials from a reply.
    pub(super) fn reply(&self, reply: Reply) -> Reply {
        match self.credentials().hide(reply.json()) {
            Cow::Owned(clean) => reply.with_json(clean),
            Cow::Borrowed(_) => reply,
        }
    }

    /// Removes credentials from parameters.
    pub(super) fn params(&self, params: &str) -> Box<RawValue> {
        let clean = self.credentials().hide(params).into_owned();
        // Removing credentials keeps JSON valid.
        RawValue::from_string(clean).unwrap_or_default()
    }

    /// Removes secrets from a failure. In a server's own error, plain configuration values stay: they may be the path
    /// that the error is about.
    pub(super) fn failed(&self, failed: RequestError) -> RequestError {
        let failed = if matches!(failed.failure, Failure::Rpc(_)) { failed } else { failed.redacted(&self.own) };
        let failed = match &self.authorize {
            Some(authorize) => failed.redacted(&authorize.secrets()),
            None => failed,
        };
        let credentials = self.credentials();
        failed.map_texts(|text| credentials.hide(text))
    }

    /// Removes secrets from a text for errors and logs.
    pub(super) fn text(&self, text: &str) -> String {
        self.credentials().hide(&self.own.redact(text)).into_owned()
    }

    /// Removes the secrets of all servers from a message for the log.
    pub(super) fn log_text(&self, message: &str) -> String {
        let message = self.all.lock().unwrap_or_else(PoisonError::into_inner).redact(message);
        match &self.authorize {
            Some(authorize) => authorize.secrets().redact(&message).into_owned(),
            None => message.into_owned(),
        }
    }

    fn credentials(&self) -> Arc<Credentials> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).credentials()
    }
}
