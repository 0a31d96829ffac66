//! Resolves a server as written in a file into an endpoint: expands variables, checks values and makes paths absolute.

mod env_files;
mod gateway;
mod known;
mod oauth;
mod program;
mod record;
mod resolver;
mod results;
mod shadow;
mod site;
#[cfg(test)]
mod tests;

use super::model::{Config, Problem, ServerConfig, TransportKind};
use super::variables::Variables;
use crate::transport::endpoint::Endpoint;
pub use env_files::{EnvFileDigests, env_file_digests};
pub use gateway::{ResolvedGateway, ResolvedToken, SessionKey, StoreUrl, check_tokens, resolve_gateway, resolve_store};
pub use known::known_secrets;
pub use oauth::{ResolvedOAuth, resolve_oauth};
pub use record::resolve_record_dir;
pub(super) use resolver::base_folders;
pub use resolver::server_path;
use resolver::{ConfigResolver, resolve_with, with_env_file};
pub use results::{ResolvedSpill, ResolvedSummarizer, ResolvedSummarizerKind, resolve_spill, resolve_summarizer};
pub use shadow::{ResolvedShadow, resolve_shadow};

/// Resolves a server into an endpoint; `session` is the value of `{{.SESSION_ID}}`.
pub fn resolve(
    server: &ServerConfig,
    config: &Config,
    variables: &Variables,
    session: Option<&str>,
) -> Result<Endpoint, Problem> {
    if let Some(problem) = &server.problem {
        return Err(problem.clone());
    }
    let path = server_path(config.shape, &server.id);
    let (endpoint, secrets) =
        resolve_with(server, &path, config, variables, session, |resolver| endpoint(resolver, config))?;
    Ok(endpoint.with_secrets(secrets))
}

fn endpoint(resolver: &mut ConfigResolver<'_>, config: &Config) -> Result<Endpoint, Problem> {
    with_env_file(resolver, |resolver| match resolver.server.kind {
        TransportKind::Stdio => program::resolve_program(resolver, config).map(Endpoint::Stdio),
        TransportKind::Http => site::resolve_site(resolver).map(Endpoint::Http),
        TransportKind::Sse => site::resolve_site(resolver).map(Endpoint::Sse),
        TransportKind::WebSocket => site::resolve_site(resolver).map(Endpoint::WebSocket),
    })
}
