//! What servers have beside their tools: the same permission, masks and limits hold for it as for what tools answer.

use std::sync::Arc;

use serde_json::value::RawValue;
use tracing::warn;

use super::{Gate, addresses, settings};
use crate::decide::{Decide, LogicResult};
use crate::failure::RpcError;
use crate::json::{self, JsonObject, REQUEST_STATE};
use crate::logic::LogicError;
use crate::registry::Link;
use crate::session::{Caller, OnProgress, Reply, RequestTimeouts, Session, SessionRequest};
use crate::telemetry::Span;

/// Why a server's resource or prompt cannot be given out.
pub(crate) enum FetchError {
    /// The server did not answer, or refused.
    Failed(crate::failure::RequestError),
    /// The component gave no answer.
    Logic(LogicError),
}

impl Gate {
    /// Whether the gate may have what this server has beside its tools: resources, prompts, completions, logs and news.
    pub fn admits(&self, server: &str) -> bool {
        let backend = self.sync();
        backend.pool.ask_gate(&backend.gate_offers, 0, |logic, id| logic.admits(id, server)).unwrap_or_else(|error| {
            warn!(server, "nobody can say whether it may be used: {error}");
            false
        })
    }

    /// The servers whose resources, prompts and news the gate may have, in the order of the configuration.
    pub fn admitted_links(&self) -> Vec<Arc<Link>> {
        let mut links = self.links();
        links.retain(|link| self.admits(link.id()));
        links
    }

    /// Whether what is told over this connection is for this gate.
    pub(crate) fn receives_from(&self, link: &Arc<Link>) -> bool {
        let shared = self.registry.shared_link(link.id(), self.session.as_deref());
        let own = shared.or_else(|| self.scoped_links().get(link.id()).cloned());
        own.is_some_and(|own| Arc::ptr_eq(&own, link)) && self.admits(link.id())
    }

    /// Asks a server for something beside its tools; what it says is masked, and cut where it is too long. Progress is told as
    /// it comes, where it is wanted.
    pub(crate) async fn fetch(
        &self,
        link: &Link,
        session: &Session,
        method: &'static str,
        params: &str,
        caller: &Caller,
        progress: Option<OnProgress>,
    ) -> Result<String, FetchError> {
        let trace = Span::begin(method, caller);
        let timeouts = link.server().timeouts;
        let patience = RequestTimeouts { idle: timeouts.call, total: timeouts.total.max(timeouts.call) };
        let request = SessionRequest { method, params, timeouts: patience, progress };
        let outcome = {
            let (span, caller) = trace.request(link.id(), method, params, session.peer(), caller);
            let outcome = session.request_for(request, &caller).await;
            span.ended(outcome.as_ref().err());
            outcome
        };
        trace.ended(outcome.as_ref().err());
        let reply = outcome.map_err(FetchError::Failed)?;
        let masked = self.mask_answer(link.id(), reply).map_err(FetchError::Logic)?;
        self.cut_texts(masked).map_err(FetchError::Logic)
    }

    /// An error of a server, masked and no longer than a result may be; its code stays.
    pub(crate) fn mask_error(&self, server: &str, error: RpcError) -> RpcError {
        let RpcError { code, message, data } = self.masked_error(server, error);
        // Half of it is no JSON, and nobody knows which part of it matters.
        let data = data.filter(|data| !self.is_too_long(data.get()));
        let message = match self.is_too_long(&message) {
            true => self.cut(&message).unwrap_or_else(|_| "an error that is too long".to_owned()),
            false => message,
        };
        RpcError { code, message, data }
    }

    /// Whether a text has more bytes than that of a result may have.
    pub(crate) fn is_too_long(&self, text: &str) -> bool {
        let limit = self.max_result_bytes();
        limit != 0 && text.len() as u64 > limit
    }

    /// A value as it is; of one that is longer than a result may be, the beginning as text.
    pub(crate) fn cut_value(&self, value: Box<RawValue>) -> LogicResult<Box<RawValue>> {
        if !self.is_too_long(value.get()) {
            return Ok(value);
        }
        let text = json::string_value(&value);
        Ok(json::to_raw(&self.cut(text.as_deref().unwrap_or(value.get()))?))
    }

    /// Cuts this member of an object that is longer than a result may be; says whether the rest is short enough.
    pub(crate) fn cut_member(&self, object: &mut JsonObject, name: &str) -> LogicResult<bool> {
        if !self.is_too_long(&object.to_text()) {
            return Ok(true);
        }
        let value = object.remove(name);
        let fits = !self.is_too_long(&object.to_text());
        if let Some(value) = value {
            object.set(name, &self.cut_value(value)?);
        }
        Ok(fits)
    }

    fn masked_error(&self, server: &str, error: RpcError) -> RpcError {
        if !settings::masks(&self.registry.config(), server) {
            return error;
        }
        let message =
            self.mask_text(server, &error.message).unwrap_or_else(|_| "an error that cannot be shown".to_owned());
        let masked = |data: Box<RawValue>| RawValue::from_string(self.mask(server, data.get()).ok()?).ok();
        RpcError { message, data: error.data.and_then(masked), ..error }
    }

    /// An answer, masked. The state of a server that wants input goes back to it as it came, and a person to its address.
    fn mask_answer(&self, server: &str, reply: Reply) -> LogicResult<String> {
        let json = reply.into_json();
        if !settings::masks(&self.registry.config(), server) {
            return Ok(json);
        }
        let questions = addresses::questions_with_urls(&json);
        let put_back = |masked: String| match &questions {
            Some(questions) => addresses::restore_urls(masked, questions),
            None => masked,
        };
        let state = match REQUEST_STATE.is_in(&json) {
            true => JsonObject::read(&json).and_then(|mut object| Some((object.remove("requestState")?, object))),
            false => None,
        };
        let Some((state, object)) = state else { return self.mask(server, &json).map(put_back) };
        let masked = put_back(self.mask(server, &object.to_text())?);
        Ok(match JsonObject::read(&masked) {
            Some(mut object) => {
                object.set("requestState", &state);
                object.to_text()
            }
            None => masked,
        })
    }

    /// An answer with its texts cut, so that they have together no more bytes than the text of a tool may have. Pictures and
    /// the like are not counted, as they are not with tools.
    pub(crate) fn cut_texts(&self, json: String) -> LogicResult<String> {
        let limit = self.max_result_bytes();
        if limit == 0 || json.len() as u64 <= limit {
            return Ok(json);
        }
        let Some(mut answer) = JsonObject::read(&json) else { return Ok(json) };
        let mut left = limit;
        let mut cut = false;
        for list in ["contents", "messages"] {
            let read = answer.get(list).and_then(|items| serde_json::from_str::<Vec<JsonObject>>(items.get()).ok());
            let Some(mut items) = read else { continue };
            for item in &mut items {
                cut |= self.cut_item(item, &mut left)?;
            }
            answer.set(list, &items);
        }
        Ok(if cut { answer.to_text() } else { json })
    }

    /// Cuts the text of an item, or of what it holds, to what is left; says whether it did.
    fn cut_item(&self, item: &mut JsonObject, left: &mut u64) -> LogicResult<bool> {
        for inner in ["content", "resource"] {
            if let Some(mut held) = item.get(inner).and_then(|held| JsonObject::read(held.get())) {
                let cut = self.cut_item(&mut held, left)?;
                item.set(inner, &held);
                return Ok(cut);
            }
        }
        let Some(text) = item.get("text").and_then(json::string_value) else { return Ok(false) };
        let size = text.len() as u64;
        if size <= *left {
            *left -= size;
            return Ok(false);
        }
        // No limit at all is what zero would mean.
        let why = "result exceeded the size limit";
        let shorter = self.backend().pool.ask(text.len(), |logic| logic.truncate(&text, (*left).max(1), why))?;
        *left = 0;
        item.set("text", &shorter);
        Ok(true)
    }

    /// The most bytes of text in a result; zero means no limit.
    pub(super) fn max_result_bytes(&self) -> u64 {
        self.view().max_result_bytes.unwrap_or_else(|| self.registry.config().settings.max_result_bytes)
    }
}
