//! Resolves a server that runs as a subprocess.

use std::path::{Path, PathBuf};

use super::resolver::ConfigResolver;
use crate::config::command::is_this_program;
use crate::config::environment::environment;
use crate::config::expand::{ExpandScope, resolve_path};
use crate::config::model::{Config, FileShape, Problem};
use crate::config::secrets::Secrets;
use crate::transport::endpoint::Program;

pub(super) fn resolve_program(resolver: &mut ConfigResolver<'_>, config: &Config) -> Result<Program, Problem> {
    let server = resolver.server;
    let working_dir = working_dir(resolver)?;
    let command = command(resolver, config.shape, working_dir.as_deref())?;
    let mut args: Vec<String> = Vec::with_capacity(server.args.len());
    for text in &server.args {
        let argument = resolver.text(text)?;
        resolver.secrets.add_argument(args.last().map(String::as_str), &argument);
        args.push(argument);
    }
    let mut own = Vec::with_capacity(server.env.len());
    for (name, text) in &server.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(resolver.problem(text, "is not a valid variable name: it is empty or contains a \"=\""));
        }
        own.push((name.clone(), resolver.text(text)?));
    }
    for name in &server.pass_env {
        if let Some(value) = resolver.scope.variables.environment.get(name) {
            resolver.secrets.add_variable(name, value);
        }
    }
    let env = environment(server, config, resolver.scope.variables, resolver.scope.env_file, own);
    // Also hide what it inherits: failing servers tend to print their environment.
    for (name, value) in &env {
        match server.env.iter().any(|(own, _)| own == name) {
            true => resolver.secrets.add_env(name, value),
            false => resolver.secrets.add_inherited_env(name, value),
        }
    }
    let line: Vec<&str> = std::iter::once(&command).chain(&args).map(String::as_str).collect();
    let file = config.file.as_deref().unwrap_or(Path::new(""));
    let folder = working_dir.as_deref().unwrap_or(Path::new(""));
    if let Some(text) = &server.command
        && is_this_program(&line, file, env.get("PATH").map(String::as_str), folder)
    {
        return Err(resolver.problem(text, "is toolgate itself, which would start itself in an endless loop"));
    }
    Ok(Program {
        command,
        args,
        env,
        working_dir,
        max_message_bytes: resolver.max_message_bytes(),
        grace: server.grace,
        secrets: Secrets::default(),
    })
}

fn working_dir(resolver: &mut ConfigResolver<'_>) -> Result<Option<PathBuf>, Problem> {
    let text = resolver.server.working_dir.as_ref();
    let working_dir = resolver.optional_path(text)?;
    if let (Some(text), Some(folder)) = (text, &working_dir)
        && !folder.is_dir()
    {
        // Without this check, a missing folder would look like a missing program.
        return Err(resolver.problem(text, format_args!("there is no folder {folder:?}")));
    }
    Ok(working_dir)
}

/// Resolves the program: a name is left for the system to look up, and a path starts in the folder of the file. Other
/// clients resolve a path in the program's working directory.
fn command(resolver: &mut ConfigResolver<'_>, shape: FileShape, working_dir: Option<&Path>) -> Result<String, Problem> {
    let server = resolver.server;
    let located =
        server.command.as_ref().ok_or_else(|| resolver.missing_problem("command required for stdio transport"))?;
    let text = resolver.text(located)?;
    if text.trim().is_empty() {
        return Err(resolver.problem(located, "is empty; name the program to run"));
    }
    if !is_path(&text) {
        return Ok(text);
    }
    let scope = match working_dir.filter(|_| shape != FileShape::Native) {
        Some(folder) => ExpandScope { folder, ..resolver.scope },
        None => resolver.scope,
    };
    let path = resolve_path(&text, &scope).map_err(|error| resolver.problem(located, error))?;
    path.into_os_string().into_string().map_err(|_| resolver.problem(located, "the path to it is not UTF-8 text"))
}

/// Reports whether the text is a path, and not the name of a program to look up.
fn is_path(text: &str) -> bool {
    text.contains('/')
}
