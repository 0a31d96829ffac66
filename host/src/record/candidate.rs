//! What recorded calls are tried on: another component, another configuration, or both.

use std::collections::HashMap;
use std::sync::Arc;

use super::line::Record;
use super::play::{PlayError, Player, Shared, SharedSettings};
use super::shapes::SettingsShape;
use super::text::sha256;
use crate::config::model::{Config, TokenRules};
use crate::gate::{GateError, View, check};
use crate::logic::types::execution::{ResultForm, Settings};
use crate::logic::types::filtering::SelectedServer;
use crate::logic::{Component, Options};

/// What recorded calls are tried on; with neither, they are replayed as they were.
#[derive(Clone, Default)]
pub struct Candidate {
    /// Another component.
    pub component: Option<Component>,
    /// Another configuration.
    pub config: Option<Arc<Config>>,
}

impl Candidate {
    /// The same, once it is sure that gates can be opened with it; servers whose masks cannot be used have them no more.
    pub(super) fn checked(&self, options: &Options) -> Result<Self, GateError> {
        let Some(config) = &self.config else { return Ok(self.clone()) };
        let component = match &self.component {
            Some(component) => component.clone(),
            None => Component::embedded(options)?,
        };
        let mut config = Config::clone(config);
        check(&component, &mut config, [&View::default()])?;
        Ok(Candidate { component: self.component.clone(), config: Some(Arc::new(config)) })
    }

    /// Whether calls are to come out as they were.
    pub fn is_same(&self) -> bool {
        self.component.is_none() && self.config.is_none()
    }
}

/// The settings that calls would have had, by whose they are.
#[derive(Default)]
pub(super) struct Tried(HashMap<(String, Option<String>, Option<u64>), SharedSettings>);

impl Tried {
    /// The settings that a recorded call would have had with this configuration.
    pub(super) fn settings(
        &mut self,
        config: &Config,
        record: &Record,
        recorded: &Settings,
        player: &mut Player,
    ) -> Result<SharedSettings, PlayError> {
        let key = (record.settings.clone(), record.principal.clone(), record.limit);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let mut view = view(config, record.principal.as_deref(), recorded);
        view.pass_through = recorded.form == ResultForm::PassThrough;
        view.max_result_bytes = record.limit;
        let settings = crate::gate::settings(player.logic(), config, &view)?;
        // Under its digest, so that what has not changed is known to be the same.
        let json = serde_json::to_string(&SettingsShape::from(&settings))
            .expect("shapes have string keys only, so they are always JSON");
        let shared = Shared { key: sha256(json.as_bytes()).into(), value: Arc::new(settings) };
        if self.0.len() >= MOST_TRIED {
            self.0.clear();
        }
        self.0.insert(key, shared.clone());
        Ok(shared)
    }
}

/// What a principal may use with this configuration.
///
/// Whoever is not named there may use all, as at a gateway without tokens; but who had been granted something once, and is
/// not named any more, is granted nothing. A choice of servers that no token made stays as far as there are such servers.
fn view(config: &Config, principal: Option<&str>, recorded: &Settings) -> View {
    let usable = |id: &str| config.servers.iter().any(|server| server.id == id && server.enabled);
    let token = |token: &&TokenRules| Some(token.principal.as_str()) == principal;
    let (selection, capabilities) = match config.settings.gateway.tokens.iter().find(token) {
        Some(token) => {
            let selected =
                |(id, tools): &(String, Vec<String>)| SelectedServer { id: id.clone(), tools: tools.clone() };
            let selection = token.selection.as_ref().map(|all| all.iter().map(selected).collect());
            (selection, token.capabilities.clone())
        }
        None => (recorded.policy.selection.clone(), recorded.policy.capabilities.as_ref().map(|_| Vec::new())),
    };
    let selection: Option<Vec<SelectedServer>> =
        selection.map(|servers| servers.into_iter().filter(|server| usable(&server.id)).collect());
    match selection {
        // A gate that could use no server at all is not opened.
        Some(none) if none.is_empty() => View { capabilities: Some(Vec::new()), ..View::default() },
        selection => View { selection, capabilities, ..View::default() },
    }
}

const MOST_TRIED: usize = 1024;
