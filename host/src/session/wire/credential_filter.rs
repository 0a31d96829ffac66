//! Keeps credentials out of what a server says, before anybody reads it.
//!
//! Whatever leaves the gate (to a client, a file, a summariser, an embedder) has come through here first, so nothing behind
//! it needs to know what is secret.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

use crate::config::secrets::{Credentials, Secrets};
use crate::failure::{Failure, RequestError};
use crate::rpc::Reply;
use crate::transport::authorize::Authorizer;
use crate::transport::endpoint::Endpoint;

/// What must not be seen in the words of one server.
#[derive(Default)]
pub(super) struct CredentialFilter {
    /// What this server was given: nothing of it is shown in errors.
    own: Secrets,
    authorize: Option<Authorizer>,
    /// What all servers were given, with what has become known since: its credentials are shown nowhere.
    all: Arc<Mutex<Secrets>>,
}

impl CredentialFilter {
    pub(super) fn new(endpoint: &Endpoint, all: Arc<Mutex<Secrets>>) -> Self {
        let own = endpoint.secrets();
        all.lock().unwrap_or_else(PoisonError::into_inner).merge(&own);
        let authorize = endpoint.site().and_then(|site| site.authorize.clone());
        CredentialFilter { own, authorize, all }
    }

    /// An answer without credentials.
    pub(super) fn reply(&self, reply: Reply) -> Reply {
        match self.credentials().hide(reply.json()) {
            Cow::Owned(clean) => Reply::new(clean),
            Cow::Borrowed(_) => reply,
        }
    }

    /// Removes credentials from parameters.
    pub(super) fn params(&self, params: &str) -> Box<RawValue> {
        let clean = self.credentials().hide(params).into_owned();
        // JSON stays JSON without them.
        RawValue::from_string(clean).unwrap_or_default()
    }

    /// A failure without secrets. In a server's own words, plain values of the configuration stay: they may be the path
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

    /// A text without secrets, for errors and logs.
    pub(super) fn text(&self, text: &str) -> String {
        self.credentials().hide(&self.own.redact(text)).into_owned()
    }

    fn credentials(&self) -> Arc<Credentials> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).credentials()
    }
}
