//! Loads the shadow policy that the configuration names, and starts it beside the gateway.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::config;
use crate::config::resolve::ResolvedShadow;
use crate::failure::format_chain;
use crate::gateway::Gateway;
use crate::shadow::{Shadow, ShadowOptions, ShadowState, limits};
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use super::watch::WatchedFile;
use crate::cli::LogicArgs;
use crate::cli::context::print_note;

/// The shadow policy of a gateway, as its files were when they were read.
#[derive(Default)]
pub struct ShadowLoader {
    /// The configured shadow policy, and digests of its files.
    loaded: Option<(ResolvedShadow, Vec<Option<[u8; 32]>>)>,
}

impl ShadowLoader {
    /// Starts the wanted shadow policy; a running one continues if nothing has changed and `anew` is false. A failure
    /// is logged and affects nothing else.
    pub async fn update(&mut self, gateway: &Gateway, logic: &LogicArgs, wanted: Option<ResolvedShadow>, anew: bool) {
        ShadowLoader::show_pending(gateway, wanted.as_ref());
        let logic = logic.clone();
        let read = move || {
            let wanted = wanted?;
            let held = files(&wanted).map(digest).collect::<Vec<_>>();
            Some((wanted, held))
        };
        // A file system may be slow.
        let wanted = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        if wanted == self.loaded && !anew {
            return;
        }
        let shadow = match &wanted {
            None => None,
            Some((wanted, _)) => {
                let wanted = wanted.clone();
                let start = move || start(&logic, &wanted);
                let failed = |_| Shadow::off("", "it could not be loaded: this is a bug in toolgate");
                Some(tokio::task::spawn_blocking(start).await.unwrap_or_else(failed))
            }
        };
        let shadow = shadow.map(Arc::new);
        gateway.set_shadow(shadow.clone());
        match (shadow, &wanted) {
            (Some(shadow), Some((ResolvedShadow { sample, .. }, _))) => match shadow.report().state() {
                ShadowState::Running => {
                    print_note(&format!("shadow policy on: {1}, {0} of calls", share(*sample), shadow.report().about));
                }
                ShadowState::Off(why) => warn!("the shadow policy is off, and the gateway runs without it: {why}"),
            },
            _ if self.loaded.is_some() => info!("shadow policy off"),
            _ => {}
        }
        self.loaded = wanted;
    }

    /// Shows the wanted shadow policy as pending if none runs yet.
    pub fn show_pending(gateway: &Gateway, wanted: Option<&ResolvedShadow>) {
        if let Some(wanted) = wanted
            && gateway.shadow().is_none()
        {
            gateway.set_shadow(Some(Arc::new(Shadow::off(&file_names(wanted), "it is being prepared"))));
        }
    }

    /// Returns the files to watch.
    pub fn watched_files(wanted: Option<&ResolvedShadow>) -> impl Iterator<Item = WatchedFile> {
        wanted.into_iter().flat_map(files).map(|path| WatchedFile::new(path.to_owned()))
    }
}

fn files(wanted: &ResolvedShadow) -> impl Iterator<Item = &Path> {
    [&wanted.logic, &wanted.config].into_iter().flatten().map(|path| &**path)
}

fn digest(path: &Path) -> Option<[u8; 32]> {
    // Reading a pipe or other special file may block.
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(Sha256::digest(bytes).into())
}

/// Starts the shadow policy; one that cannot be started is off and says why.
fn start(logic: &LogicArgs, wanted: &ResolvedShadow) -> Shadow {
    let options = ShadowOptions { sample: wanted.sample, ..ShadowOptions::default() };
    try_start(logic, wanted, options).unwrap_or_else(|why| Shadow::off(&file_names(wanted), &why))
}

/// Returns the paths of the shadow policy's files.
fn file_names(wanted: &ResolvedShadow) -> String {
    files(wanted).map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn try_start(logic: &LogicArgs, wanted: &ResolvedShadow, options: ShadowOptions) -> Result<Shadow, String> {
    // A pipe can be read only once, and reading it may block.
    if let Some(path) = files(wanted).find(|path| path.metadata().is_ok_and(|metadata| !metadata.is_file())) {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let config = match &wanted.config {
        Some(file) => Some(config::load(file).map_err(|error| error.to_string())?),
        None => None,
    };
    let component = logic.load_component(wanted.logic.as_deref(), limits()).map_err(|error| format_chain(&error))?;
    Shadow::start(component, config, options).map_err(|error| format_chain(&error))
}

/// More than any component or configuration has.
const MOST: u64 = 65 << 20;

fn share(sample: f64) -> String {
    format!("{} %", (sample * 10_000.0).round() / 100.0)
}
