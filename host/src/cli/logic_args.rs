//! The options for the component that decides, and how it is loaded.

use std::path::{Path, PathBuf};

use crate::logic::{Cache, Component, ComponentOptions, InstanceLimits, LogicError, Supervisor};

use super::error::CliError;
use super::style;

/// The options for the component that decides.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Options for every command")]
pub(super) struct LogicArgs {
    /// Use this component instead of the built-in one; it must implement world `logic`
    #[arg(long, global = true, value_name = "FILE")]
    pub logic: Option<PathBuf>,
    /// The component's memory limit, in MiB
    #[arg(long, global = true, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_memory: u16,
    /// The component's fuel limit for one decision, in millions of instructions; 0 means no limit
    #[arg(long, global = true, value_name = "MILLIONS", default_value_t = 20_000)]
    max_fuel: u64,
}

impl LogicArgs {
    /// Starts the component that the options select.
    pub(super) fn supervisor(&self) -> Result<Supervisor, CliError> {
        Ok(Supervisor::new(self.component(self.limits())?)?)
    }

    /// Returns the limits that the options set.
    pub(super) fn limits(&self) -> InstanceLimits {
        InstanceLimits {
            fuel: (self.max_fuel > 0).then(|| self.max_fuel.saturating_mul(1_000_000)),
            memory_bytes: usize::from(self.max_memory) << 20,
        }
    }

    /// Loads the component that the options select, within these limits, and prints its warning.
    pub(super) fn component(&self, limits: InstanceLimits) -> Result<Component, CliError> {
        let component = self.load_component(None, limits)?;
        if let Some(warning) = component.warning() {
            style::write_warning(warning);
        }
        Ok(component)
    }

    /// Loads the component from this file, or the one that the options select, within these limits.
    pub(super) fn load_component(&self, file: Option<&Path>, limits: InstanceLimits) -> Result<Component, LogicError> {
        let options = component_options(limits);
        match file.or(self.logic.as_deref()) {
            Some(file) => Component::from_file(file, &options),
            None => Component::embedded(&options),
        }
    }
}

/// Returns the options for components within these limits, which are cached for the user.
pub(super) fn component_options(limits: InstanceLimits) -> ComponentOptions {
    ComponentOptions { limits, cache: Cache::user(), ..ComponentOptions::default() }
}
