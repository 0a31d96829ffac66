//! Resolves the summarizer and the folder for long results.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::resolver::{resolve_folder, resolve_with};
use super::{program, site};
use crate::config::model::{Config, Problem, ServerConfig, SummarizerKind, SummarizerRules, TransportKind};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;

/// A summarizer with all variables expanded. `Debug` shows no argument, variable, address or key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSummarizer {
    /// The program or endpoint.
    pub how: ResolvedSummarizerKind,
    /// How long a summary may take.
    pub timeout: Duration,
    /// The most bytes of text to pass to the summarizer.
    pub max_input_bytes: usize,
    /// Values to hide in everything that the summarizer returns.
    pub secrets: Secrets,
}

/// The kind of summarizer.
#[derive(Clone, PartialEq, Eq)]
pub enum ResolvedSummarizerKind {
    /// A program that reads the text from standard input and writes the summary to standard output.
    Command {
        /// The program, by path or by name.
        program: String,
        /// The program's arguments.
        args: Vec<String>,
        /// The program's whole environment.
        env: BTreeMap<String, String>,
    },
    /// An endpoint of an OpenAI-compatible API.
    Http {
        /// The base URL: `http` or `https`.
        url: String,
        /// The model to ask.
        model: String,
        /// The API key, without `Bearer` before it.
        api_key: Option<String>,
    },
}

/// Where to keep long results, with all variables expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSpill {
    /// The folder, which need not exist yet; `None` means the user's default folder.
    pub dir: Option<PathBuf>,
    /// The largest size of all files together.
    pub max_bytes: u64,
    /// How long to keep each file.
    pub max_age: Duration,
}

/// Resolves a summarizer; `path` is its place in the file, for messages.
pub fn resolve_summarizer(
    summarizer: &SummarizerRules,
    path: &str,
    config: &Config,
    variables: &Variables,
) -> Result<ResolvedSummarizer, Problem> {
    let (how, secrets) =
        resolve_with(&as_server(summarizer), path, config, variables, None, |resolver| match &summarizer.how {
            SummarizerKind::Command { .. } => {
                let program = program::resolve_program(resolver, config)?;
                Ok(ResolvedSummarizerKind::Command { program: program.command, args: program.args, env: program.env })
            }
            SummarizerKind::Http { url, model, api_key } => {
                let address = site::resolve_address(resolver, url)?;
                let name = resolver.text(model)?.trim().to_owned();
                if name.is_empty() {
                    return Err(resolver.problem(model, "is empty; name the model to ask"));
                }
                let api_key = api_key.as_ref().map(|key| site::resolve_token(resolver, key)).transpose()?;
                Ok(ResolvedSummarizerKind::Http { url: address, model: name, api_key })
            }
        })?;
    let max_input_bytes = usize::try_from(summarizer.max_input_bytes).unwrap_or(usize::MAX);
    Ok(ResolvedSummarizer { how, timeout: summarizer.timeout, max_input_bytes, secrets })
}

/// Resolves where to keep long results; returns `None` if the file keeps none.
pub fn resolve_spill(config: &Config, variables: &Variables) -> Result<Option<ResolvedSpill>, Problem> {
    let Some(spill) = &config.settings.spill else { return Ok(None) };
    let folder = |dir| resolve_folder(dir, "spill", config, variables);
    let dir = spill.dir.as_ref().map(folder).transpose()?;
    Ok(Some(ResolvedSpill { dir, max_bytes: spill.max_bytes, max_age: spill.max_age }))
}

/// Returns the summarizer's program as a server, which inherits the same variables as a server would.
fn as_server(summarizer: &SummarizerRules) -> ServerConfig {
    let mut server = ServerConfig::new("", summarizer.place.clone(), TransportKind::Stdio);
    if let SummarizerKind::Command { program, args } = &summarizer.how {
        server.command = Some(program.clone());
        server.args.clone_from(args);
    }
    server
}

impl fmt::Debug for ResolvedSummarizerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolvedSummarizerKind::Command { program, args, .. } => {
                f.debug_struct("Command").field("program", program).field("args", &args.len()).finish_non_exhaustive()
            }
            ResolvedSummarizerKind::Http { model, .. } => {
                f.debug_struct("Http").field("model", model).finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    fn config(text: &str) -> Config {
        parse(text, Path::new("/etc/toolgate.yaml")).unwrap_or_else(|error| panic!("{error}"))
    }

    fn summarizer(text: &str, environment: &[(&str, &str)]) -> Result<ResolvedSummarizer, String> {
        let (config, variables) = (config(text), Variables::of_test(environment));
        let rules = config.settings.summarizer.as_ref().unwrap();
        resolve_summarizer(rules, "summarizer", &config, &variables).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_program_is_filled_in_as_that_of_a_server_is() {
        let text = "summarizer: {command: [./bin/sum, --key=arg-secret, '${MINE}'], timeout: 5s, max_input_bytes: 2KiB}\n\
                    servers: {a: {command: x, env: {T: '${OF_A_SERVER}'}}, '': {command: y, args: ['${OF_NONE}']}}";
        let environment = [
            ("MINE", "mine-1234"),
            ("OF_A_SERVER", "v"),
            ("OF_NONE", "v"),
            ("PATH", "/bin"),
            ("SOME_KEY", "inherited-1"),
        ];
        let found = summarizer(text, &environment).unwrap();
        let ResolvedSummarizerKind::Command { program, args, env } = &found.how else { panic!("{found:?}") };
        assert_eq!(program, "/etc/bin/sum");
        assert_eq!(args, &["--key=arg-secret", "mine-1234"]);
        assert_eq!(env.keys().collect::<Vec<_>>(), ["MINE", "PATH", "SOME_KEY"]);
        assert_eq!((found.timeout, found.max_input_bytes), (Duration::from_secs(5), 2048));
        assert_eq!(
            found.secrets.redact("mine-1234 arg-secret inherited-1 /bin"),
            "[REDACTED] [REDACTED] [REDACTED] /bin"
        );
        let shown = format!("{found:?}");
        assert!(!shown.contains("secret\"") && !shown.contains("1234") && !shown.contains("inherited"), "{shown}");
    }

    #[test]
    fn an_endpoint_is_filled_in_and_its_key_is_a_secret() {
        let text = "summarizer: {url: 'https://me:s3cret-1@${HOST}/v1?key=s3cret-2', model: '${M:-small}', api_key: 'Bearer ${K}'}";
        let found = summarizer(text, &[("HOST", "x.example"), ("K", "s3cret-3")]).unwrap();
        let ResolvedSummarizerKind::Http { url, model, api_key } = &found.how else { panic!("{found:?}") };
        assert_eq!((url.as_str(), model.as_str()), ("https://me:s3cret-1@x.example/v1?key=s3cret-2", "small"));
        assert_eq!(api_key.as_deref(), Some("s3cret-3"));
        assert_eq!(found.secrets.redact("s3cret-1 s3cret-2 s3cret-3"), "[REDACTED] [REDACTED] [REDACTED]");
        assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
    }

    #[test]
    fn what_cannot_be_filled_in_names_its_field() {
        let rows = [
            ("{command: '${MISSING}'}", "summarizer.command: variable \"MISSING\" is not set"),
            ("{command: [x, '${file:${SECRET}}']}", "summarizer.command[1]: file \"/etc/[REDACTED]\": "),
            ("{command: '${EMPTY:-}'}", "summarizer.command: is empty; name the program to run"),
            ("{url: 'ftp://x', model: m}", "summarizer.url: \"ftp\" does not work for http servers"),
            ("{url: 'https://x', model: '${EMPTY:- }'}", "summarizer.model: is empty; name the model to ask"),
            ("{url: 'https://x', model: m, api_key: '${EMPTY:-}'}", "summarizer.api_key: is empty"),
            ("{url: 'https://x', model: m, api_key: '${MISSING}'}", "summarizer.api_key: variable \"MISSING\" is not"),
        ];
        for (section, expected) in rows {
            let found = summarizer(&format!("summarizer: {section}"), &[("SECRET", "s3cret-value")]).unwrap_err();
            assert!(found.starts_with("/etc/toolgate.yaml:1:") && found.contains(expected), "{section}: {found}");
            assert!(!found.contains("s3cret"), "{found}");
        }
    }

    #[test]
    fn the_folder_of_long_results_is_relative_to_the_configuration() {
        let spill = |text: &str| {
            let found = resolve_spill(&config(text), &Variables::of_test(&[("DIR", "/var/x")]));
            found.map_err(|problem| problem.to_string())
        };
        let dir = |text: &str| spill(text).unwrap().unwrap().dir;
        assert_eq!(spill("version: 1"), Ok(None));
        assert_eq!(dir("spill: true"), None);
        for (text, expected) in [
            ("./long", "/etc/long"),
            ("~/long", "/home/me/long"),
            ("'${DIR}/long'", "/var/x/long"),
            ("'${workspaceFolder}'", "/project"),
        ] {
            assert_eq!(dir(&format!("spill: {{dir: {text}}}")), Some(expected.into()), "{text}");
        }
        let found = spill("spill: {max_bytes: 1MiB, max_age: 2h}").unwrap().unwrap();
        assert_eq!((found.max_bytes, found.max_age), (1 << 20, Duration::from_secs(7200)));
        let refused = spill("spill: {dir: '${MISSING}'}").unwrap_err();
        assert!(
            refused.starts_with("/etc/toolgate.yaml:1:14: spill.dir: variable \"MISSING\" is not set"),
            "{refused}"
        );
        assert!(spill("spill: {dir: ''}").unwrap_err().contains("spill.dir: is empty"));
    }

    #[test]
    fn a_file_is_no_folder_for_long_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolgate.yaml");
        std::fs::write(&path, "").unwrap();
        let config = parse("spill: {dir: toolgate.yaml}", &path).unwrap();
        let problem = resolve_spill(&config, &Variables::of_test(&[])).unwrap_err();
        assert!(problem.to_string().ends_with("toolgate.yaml\" is not a folder"), "{problem}");
    }
}
