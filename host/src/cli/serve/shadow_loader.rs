//! The candidate that the configuration wants tried in the shade: read, loaded, and put beside the gateway.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use toolgate::config;
use toolgate::config::resolve::ResolvedShadow;
use toolgate::failure::format_chain;
use toolgate::gateway::Gateway;
use toolgate::shadow::{Shadow, ShadowOptions, ShadowState, limits};
use tracing::{info, warn};

use super::watch::WatchedFile;
use crate::cli::LogicArgs;
use crate::cli::context::print_note;

/// What is tried beside a gateway, as its files were when they were read.
#[derive(Default)]
pub struct ShadowLoader {
    /// What the configuration asks for, and what was in the files.
    loaded: Option<(ResolvedShadow, Vec<Option<[u8; 32]>>)>,
}

impl ShadowLoader {
    /// Has a gateway try what is wanted now; one that is tried already goes on, unless it is to begin `anew`. What cannot be
    /// tried is told, and changes nothing else.
    pub async fn update(&mut self, gateway: &Gateway, logic: &LogicArgs, wanted: Option<ResolvedShadow>, anew: bool) {
        ShadowLoader::show_pending(gateway, wanted.as_ref());
        let logic = logic.clone();
        let read = move || {
            let wanted = wanted?;
            let held = files(&wanted).map(digest).collect::<Vec<_>>();
            Some((wanted, held))
        };
        // A file system may be slow, and a component takes its time to be compiled.
        let wanted = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        if wanted == self.loaded && !anew {
            return;
        }
        let shadow = match &wanted {
            None => None,
            Some((wanted, _)) => {
                let wanted = wanted.clone();
                let start = move || start(&logic, &wanted);
                let failed = |_| Shadow::off("", "it could not be loaded: this is a mistake of ours");
                Some(tokio::task::spawn_blocking(start).await.unwrap_or_else(failed))
            }
        };
        let shadow = shadow.map(Arc::new);
        gateway.set_shadow(shadow.clone());
        match (shadow, &wanted) {
            (Some(shadow), Some((ResolvedShadow { sample, .. }, _))) => match shadow.report().state() {
                ShadowState::Running => {
                    print_note(&format!(
                        "in the shade, for {} of all calls: {}",
                        share(*sample),
                        shadow.report().about
                    ));
                }
                ShadowState::Off(why) => warn!("the shadow cannot be tried, and all else goes on: {why}"),
            },
            _ if self.loaded.is_some() => info!("the shadow has ended"),
            _ => {}
        }
        self.loaded = wanted;
    }

    /// Shows that a candidate is to come, where there is none yet.
    pub fn show_pending(gateway: &Gateway, wanted: Option<&ResolvedShadow>) {
        if let Some(wanted) = wanted
            && gateway.shadow().is_none()
        {
            gateway.set_shadow(Some(Arc::new(Shadow::off(&file_names(wanted), "it is being prepared"))));
        }
    }

    /// The files that are worth another look.
    pub fn watched_files(wanted: Option<&ResolvedShadow>) -> impl Iterator<Item = WatchedFile> {
        wanted.into_iter().flat_map(files).map(|path| WatchedFile::new(path.to_owned()))
    }
}

fn files(wanted: &ResolvedShadow) -> impl Iterator<Item = &Path> {
    [&wanted.logic, &wanted.config].into_iter().flatten().map(|path| &**path)
}

fn digest(path: &Path) -> Option<[u8; 32]> {
    // What is no regular file may keep whoever reads it waiting.
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(Sha256::digest(bytes).into())
}

/// The candidate, running, or off with the reason why it cannot be tried.
fn start(logic: &LogicArgs, wanted: &ResolvedShadow) -> Shadow {
    let options = ShadowOptions { sample: wanted.sample, ..ShadowOptions::default() };
    try_start(logic, wanted, options).unwrap_or_else(|why| Shadow::off(&file_names(wanted), &why))
}

/// The files of a candidate, by their names.
fn file_names(wanted: &ResolvedShadow) -> String {
    files(wanted).map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn try_start(logic: &LogicArgs, wanted: &ResolvedShadow, options: ShadowOptions) -> Result<Shadow, String> {
    // A pipe gives what it has once, and may keep whoever reads it waiting.
    if let Some(path) = files(wanted).find(|path| path.metadata().is_ok_and(|metadata| !metadata.is_file())) {
        return Err(format!("{} is no regular file", path.display()));
    }
    let config = match &wanted.config {
        Some(file) => Some(config::load(file).map_err(|error| error.to_string())?),
        None => None,
    };
    let component = logic.load_component(wanted.logic.as_deref(), limits()).map_err(|error| format_chain(&error))?;
    Shadow::start(component, config, options).map_err(|error| format_chain(&error))
}

/// More than any component or configuration may have.
const MOST: u64 = 65 << 20;

fn share(sample: f64) -> String {
    format!("{} %", (sample * 10_000.0).round() / 100.0)
}
