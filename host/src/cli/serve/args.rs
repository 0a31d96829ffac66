//! The arguments of `toolgate serve`.

use std::path::PathBuf;

use crate::config::model::GatewayNames;

/// The arguments of `toolgate serve`.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Args {
    /// Serve HTTP at this address instead of standard input and output; without a value, at gateway.http or
    /// 127.0.0.1:8808
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    pub http: Option<Option<String>>,
    /// Serve only this server, with its own names
    #[arg(long, value_name = "SERVER")]
    pub expose: Option<String>,
    /// How tools are named, instead of gateway.names
    #[arg(long, value_name = "STYLE", value_parser = names)]
    pub names: Option<GatewayNames>,
    /// Record calls in this folder, for `toolgate replay` and `toolgate explain`; if repeated, further folders are those
    /// of other gateways, whose calls `/api/v1/calls?recorded=true` lists too
    #[arg(long, value_name = "DIR")]
    pub record: Vec<PathBuf>,
}

/// Parses a naming style, spelled as in the configuration.
fn names(text: &str) -> Result<GatewayNames, String> {
    let known = || GatewayNames::ALL.map(|(name, _)| name).join(", ");
    GatewayNames::read(text).ok_or_else(|| format!("write one of: {}", known()))
}
