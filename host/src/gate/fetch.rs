//! Requests other than tool calls, such as resources and prompts, with the same permissions, masks and limits.

use std::sync::Arc;

use serde_json::value::RawValue;
use tracing::warn;

use super::{Gate, addresses};
use crate::decide::{Decide, LogicResult};
use crate::failure::RpcError;
use crate::gate_settings;
use crate::json::{self, JsonObject, REQUEST_STATE};
use crate::logic::LogicError;
use crate::registry::Link;
use crate::session::{Caller, OnProgress, Reply, RequestTimeouts, Session, SessionRequest};
use crate::telemetry::Span;

/// An error of a request for a resource or a prompt.
pub(crate) enum FetchError {
    /// The server failed or refused.
    Failed(crate::failure::RequestError),
    /// The component failed.
    Logic(LogicError),
}

impl Gate {
    /// Masks the descriptions of tools, each given with its server; tools of one server must be adjacent.
    pub fn mask_descriptions(&self, tools: &mut [(String, JsonObject)]) -> LogicResult<()> {
        self.backend().mask_descriptions(tools)
    }

    /// Reports whether the gate may use anything of this server.
    pub(crate) fn selects(&self, server: &str) -> bool {
        let backend = self.sync();
        backend.pool.ask_gate(&backend.gate_offers, 0, |logic, id| logic.selects(id, server)).unwrap_or_else(|error| {
            warn!(server, "cannot check whether the server may be used: {error}");
            false
        })
    }

    /// Reports whether the gate may use what this server has beyond tools: resources, prompts, completions, logs and
    /// events.
    pub fn admits(&self, server: &str) -> bool {
        let backend = self.sync();
        backend.pool.ask_gate(&backend.gate_offers, 0, |logic, id| logic.admits(id, server)).unwrap_or_else(|error| {
            warn!(server, "cannot check whether the server may be used: {error}");
            false
        })
    }

    /// Returns the servers whose resources, prompts and events the gate may use, in the order of the configuration.
    pub fn admitted_links(&self) -> Vec<Arc<Link>> {
        let mut links = self.links();
        links.retain(|link| self.admits(link.id()));
        links
    }

    /// Reports whether events of this connection are for this gate.
    pub(crate) fn receives_from(&self, link: &Arc<Link>) -> bool {
        let shared = self.registry.shared_link(link.id(), self.session.as_deref());
        let own = shared.or_else(|| self.scoped_links().get(link.id()).cloned());
        own.is_some_and(|own| Arc::ptr_eq(&own, link)) && self.admits(link.id())
    }

    /// Sends a request other than a tool call; masks the result and cuts it if it is too long. Reports progress to the
    /// listener, if there is one.
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

    /// Masks an error of a server and limits its size; the code stays.
    pub(crate) fn mask_error(&self, server: &str, error: RpcError) -> RpcError {
        let RpcError { code, message, data } = self.masked_error(server, error);
        // JSON cannot be cut, and nobody knows which part matters.
        let data = data.filter(|data| !self.is_too_long(data.get()));
        let message = match self.is_too_long(&message) {
            true => self.cut(&message).unwrap_or_else(|_| "an error that is too long".to_owned()),
            false => message,
        };
        RpcError { code, message, data }
    }

    /// Reports whether a text is longer than a result may be.
    pub(crate) fn is_too_long(&self, text: &str) -> bool {
        let limit = self.max_result_bytes();
        limit != 0 && text.len() as u64 > limit
    }

    /// Returns a value unchanged, or the beginning of it as text if it is longer than a result may be.
    pub(crate) fn cut_value(&self, value: Box<RawValue>) -> LogicResult<Box<RawValue>> {
        if !self.is_too_long(value.get()) {
            return Ok(value);
        }
        let text = json::string_value(&value);
        Ok(json::to_raw(&self.cut(text.as_deref().unwrap_or(value.get()))?))
    }

    /// Cuts a member of an object that is too long; returns whether the rest is short enough.
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
        if !gate_settings::masks(&self.registry.config(), server) {
            return error;
        }
        let message =
            self.mask_text(server, &error.message).unwrap_or_else(|_| "an error that cannot be shown".to_owned());
        let masked = |data: Box<RawValue>| RawValue::from_string(self.mask(server, data.get()).ok()?).ok();
        RpcError { message, data: error.data.and_then(masked), ..error }
    }

    /// Masks a result, except for the request state, which must go back to the server unchanged, and URLs for a person.
    fn mask_answer(&self, server: &str, reply: Reply) -> LogicResult<String> {
        let json = reply.into_json();
        if !gate_settings::masks(&self.registry.config(), server) {
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

    /// Cuts the texts of a result, so that together they are no longer than the text of a tool's result may be. As with
    /// tools, images and other binary content do not count.
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

    /// Cuts the text of an item, or of the content in it, to what is left; returns whether it did.
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
        // Zero would mean no limit.
        let why = "result exceeded the size limit";
        let shorter = self.backend().pool.ask(text.len(), |logic| logic.truncate(&text, (*left).max(1), why))?;
        *left = 0;
        item.set("text", &shorter);
        Ok(true)
    }

    /// Returns the maximum size of a result's text in bytes; zero means no limit.
    pub(super) fn max_result_bytes(&self) -> u64 {
        self.view().max_result_bytes.unwrap_or_else(|| self.registry.config().settings.max_result_bytes)
    }
}
