//! Keeps results that are too long in files, summarises them, or both.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::config::model::{Config, Problem, ServerConfig, ServerSummarizer, SummarizerRules};
use crate::config::resolve::{
    ResolvedSummarizer, ResolvedSummarizerKind, resolve_spill, resolve_summarizer, server_path,
};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::failure::format_chain;
use crate::logic::types::execution::{Condensed, Oversize};
use crate::spill::{SpillRules, SpillStore, default_dir};
use crate::summarize::{Summarizer, SummaryCommand, SummaryEndpoint, SummaryLimits, SummaryTask};

/// Keeps and summarises results that are too long.
#[derive(Debug, Default)]
pub(crate) struct Condenser {
    spill: Option<SpillStore>,
    summarizer: Option<Summarizer>,
    /// The summarizers of servers that have their own.
    server_summarizers: BTreeMap<String, Option<Summarizer>>,
    secrets: Secrets,
    /// Removes texts that are too old; it ends with the condenser.
    sweeper: Option<JoinHandle<()>>,
}

impl Drop for Condenser {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

impl Condenser {
    /// Creates the condenser; an error in one part of the configuration disables only that part, with a warning.
    pub(crate) fn new(config: &Config, variables: &Variables) -> Self {
        let mut secrets = Secrets::default();
        let spill = or_warn(resolve_spill(config, variables)).map(|filled| {
            let dir = filled.dir.unwrap_or_else(default_dir);
            SpillStore::new(SpillRules { dir, max_bytes: filled.max_bytes, max_age: filled.max_age })
        });
        let mut resolve = |rules: &SummarizerRules, path: &str| {
            let filled = or_warn(resolve_summarizer(rules, path, config, variables).map(Some))?;
            secrets.merge(&filled.secrets);
            summarizer(filled)
        };
        let summarizer = config.settings.summarizer.as_ref().and_then(|rules| resolve(rules, "summarizer"));
        let own = |server: &ServerConfig| match &server.summarizer {
            ServerSummarizer::Own(rules) => {
                let path = format!("{}.summarizer", server_path(config.shape, &server.id));
                Some((server.id.clone(), resolve(rules, &path)))
            }
            ServerSummarizer::Shared | ServerSummarizer::Off => None,
        };
        let server_summarizers = config.servers.iter().filter_map(own).collect();
        Condenser { spill, summarizer, server_summarizers, secrets, sweeper: None }
    }

    /// Removes texts that are too old, now and then every hour, until the condenser is dropped.
    pub(crate) fn sweep_regularly(mut self) -> Self {
        if let (Some(spill), Ok(runtime)) = (&self.spill, Handle::try_current()) {
            self.sweeper = Some(runtime.spawn(spill.clone().sweep_regularly()));
        }
        self
    }

    /// Returns the summarizer's secrets.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Keeps and summarises a text as far as possible; if that fails, the text is only cut.
    pub(crate) async fn condense(&self, call: &str, oversize: Oversize) -> Condensed {
        let Oversize { tool, text, spill, summarize } = oversize;
        let text: Arc<str> = text.into();
        let kept = match &self.spill {
            Some(folder) if spill => {
                let kept = folder.keep_async(&tool.server, &tool.tool, call, Arc::clone(&text)).await;
                ok_or_warn(kept).map(|path| path.display().to_string())
            }
            _ => None,
        };
        let summarizer = self.server_summarizers.get(&tool.server).unwrap_or(&self.summarizer);
        let summary = match summarizer {
            Some(summarizer) if summarize => {
                let task = SummaryTask { server: &tool.server, tool: &tool.tool, text: &text };
                ok_or_warn(summarizer.summarize(task).await)
            }
            _ => None,
        };
        Condensed { kept, summary }
    }
}

fn or_warn<T>(filled: Result<Option<T>, Problem>) -> Option<T> {
    filled.unwrap_or_else(|problem| {
        warn!("{problem}");
        None
    })
}

fn ok_or_warn<T>(result: Result<T, impl std::error::Error + 'static>) -> Option<T> {
    result.inspect_err(|error| warn!("{}", format_chain(error))).ok()
}

fn summarizer(filled: ResolvedSummarizer) -> Option<Summarizer> {
    let ResolvedSummarizer { how, timeout, max_input_bytes, secrets } = filled;
    let limits = SummaryLimits { timeout, max_input_bytes };
    match how {
        ResolvedSummarizerKind::Command { program: command, args, env } => {
            Some(Summarizer::Command(SummaryCommand { command, args, env, secrets }, limits))
        }
        ResolvedSummarizerKind::Http { url, model, api_key } => {
            let endpoint = ok_or_warn(SummaryEndpoint::new(&url, model, api_key.as_deref()))?;
            Some(Summarizer::Http(endpoint, limits))
        }
    }
}
