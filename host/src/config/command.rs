//! Command lines: splitting those written as one string, and detecting those that would start this gateway again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::field::ReadContext;
use super::model::{FilePosition, ServerConfig, TransportKind, UnexpandedText};

/// Splits a command such as `npx -y pkg` into a program and its arguments, unless it looks like a path with spaces.
pub(super) fn split(server: &mut ServerConfig, context: &mut ReadContext) {
    let Some(command) = server.command.as_ref().filter(|_| server.kind == TransportKind::Stdio) else { return };
    let Some(mut words) = words(command.text.trim()).filter(|words| words.len() > 1) else { return };
    if !is_line(&words, server.args.is_empty()) {
        return;
    }
    let text =
        format!("command is split into a program and {} arguments; write them under `args` instead", words.len() - 1);
    let position = command.place.clone();
    context.add_notice(&position, text);
    let located = |text: String| UnexpandedText { text, place: position.clone(), field: String::new() };
    let program = words.remove(0);
    server.command = Some(UnexpandedText { field: "command".to_owned(), ..located(program) });
    server.args.splice(0..0, words.into_iter().map(located));
    for (at, arg) in server.args.iter_mut().enumerate() {
        arg.field = format!("args[{at}]");
    }
}

/// Reports whether the words are a program with arguments, and not a path that contains spaces.
fn is_line(words: &[String], without_args: bool) -> bool {
    let is_flag = |word: &String| word.len() > 1 && word.starts_with('-');
    let is_path = words[0].contains(['/', '\\']);
    let begins_anew = |word: &String| word.starts_with(['/', '@', '$']) || word.starts_with("./");
    match (is_path, without_args) {
        (false, true) => true,
        (true, true) => words[1..].iter().any(|word| is_flag(word) || begins_anew(word)),
        // If the server also has `args`, only a flag shows that the command is a line.
        (_, false) => words[1..].iter().any(is_flag),
    }
}

/// Splits a command line into words as a shell does, never inside `${…}`; returns `None` if a quote is not closed.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        next if next == letter => break,
                        '\\' if letter == '"' && matches!(letters.peek(), Some('"' | '\\')) => {
                            word.extend(letters.next())
                        }
                        next => word.push(next),
                    }
                }
            }
            '$' if letters.peek() == Some(&'{') => {
                let word = word.get_or_insert_default();
                word.push(letter);
                loop {
                    let next = letters.next()?;
                    word.push(next);
                    if next == '}' {
                        break;
                    }
                }
            }
            // A backslash escapes a space; elsewhere it is part of a Windows path.
            '\\' if letters.peek().is_some_and(|next| next.is_whitespace()) => {
                word.get_or_insert_default().extend(letters.next());
            }
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// Reports whether the server is this gateway by name, directly or through a launcher, with the same configuration
/// file. A gateway with another configuration is a server like any other.
pub(super) fn starts_gateway(server: &ServerConfig) -> bool {
    let Some(command) = server.command.as_ref().filter(|_| server.kind == TransportKind::Stdio) else { return false };
    let line: Vec<&str> = std::iter::once(command).chain(&server.args).map(|word| word.text.as_str()).collect();
    is_gateway(&line, &server.place.file, &|_| false, 0)
}

/// Reports whether the server is a gateway by name that serves this configuration file.
pub(super) fn serves_file(server: &ServerConfig, config: &Path) -> bool {
    let place = FilePosition { file: Arc::from(config), ..server.place.clone() };
    starts_gateway(&ServerConfig { place, ..server.clone() })
}

/// Reports whether a command line that is about to run starts this program, compared by file, with the same
/// configuration.
pub(super) fn is_this_program(line: &[&str], config: &Path, path: Option<&str>, folder: &Path) -> bool {
    let Some(this) = std::env::current_exe().and_then(std::fs::canonicalize).ok() else { return false };
    let is_this = |program: &str| {
        let found: Vec<PathBuf> = match program.contains('/') {
            true => vec![folder.join(program)],
            false => path.map(std::env::split_paths).into_iter().flatten().map(|dir| dir.join(program)).collect(),
        };
        let first = found.iter().find(|file| file.is_file());
        first.and_then(|file| std::fs::canonicalize(file).ok()).is_some_and(|file| file == this)
    };
    is_gateway(line, config, &is_this, 0)
}

fn is_gateway(line: &[&str], config: &Path, is_this: &dyn Fn(&str) -> bool, depth: usize) -> bool {
    let Some((program, rest)) = line.split_first() else { return false };
    let is_flag = |word: &&&str| word.starts_with('-');
    let behind = |rest: Vec<&str>| is_gateway(&rest, config, is_this, depth + 1);
    match program_name(program).as_str() {
        "toolgate" => serves(rest, config),
        _ if is_this(program) => serves(rest, config),
        _ if depth > 4 => false,
        "env" => behind(rest.iter().skip_while(|word| is_flag(word) || word.contains('=')).copied().collect()),
        "npx" | "bunx" | "pnpx" | "uvx" | "nohup" | "exec" | "sudo" | "nice" | "setsid" => {
            behind(rest.iter().skip_while(is_flag).copied().collect())
        }
        "sh" | "bash" | "zsh" | "dash" => {
            let script = rest.iter().skip_while(|word| !(word.starts_with('-') && word.ends_with('c'))).nth(1);
            let line = script.and_then(|script| words(script));
            line.is_some_and(|line| behind(line.iter().map(String::as_str).collect()))
        }
        _ => false,
    }
}

/// Reports whether these arguments serve this configuration; if they name none, it may be this one.
fn serves(args: &[&str], config: &Path) -> bool {
    let real = |file: &Path| std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let named = args.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--config") {
        Some("") => args.get(at + 1).copied(),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    args.contains(&"serve") && named.is_none_or(|named| real(Path::new(named)) == real(config))
}

/// Returns `toolgate` for `/usr/bin/toolgate`, `toolgate.exe` and `@scope/toolgate@1.2`.
fn program_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.split_once('@').map_or(name, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::model::{FilePosition, FileShape};
    use super::*;

    fn server(command: &str, args: &[&str]) -> ServerConfig {
        let position = FilePosition { file: Arc::from(Path::new("f")), line: 1, column: 1 };
        let located =
            |text: &str| UnexpandedText { text: text.to_owned(), place: position.clone(), field: String::new() };
        let mut server = ServerConfig::new("a", position.clone(), TransportKind::Stdio);
        server.command = Some(located(command));
        server.args = args.iter().copied().map(located).collect();
        server
    }

    #[test]
    fn a_command_line_is_split_and_a_path_with_spaces_is_not() {
        let rows: [(&str, &[&str], &[&str]); 13] = [
            ("npx -y pkg", &[], &["npx", "-y", "pkg"]),
            ("npx -y", &["pkg"], &["npx", "-y", "pkg"]),
            ("npx", &["-y", "pkg"], &["npx", "-y", "pkg"]),
            ("node server.js", &[], &["node", "server.js"]),
            ("sh -c 'a  b' \"c \\\"d\"", &[], &["sh", "-c", "a  b", "c \"d"]),
            ("/usr/bin/node /srv/x.js", &[], &["/usr/bin/node", "/srv/x.js"]),
            ("/Applications/My App/bin/x", &[], &["/Applications/My App/bin/x"]),
            ("C:\\Program Files\\x.exe", &[], &["C:\\Program Files\\x.exe"]),
            ("/Applications/My App/x", &["--flag"], &["/Applications/My App/x", "--flag"]),
            ("My Program", &["x"], &["My Program", "x"]),
            ("${DIR:-a b}/x", &[], &["${DIR:-a b}/x"]),
            ("it's broken", &[], &["it's broken"]),
            ("run ${A:-b c} d", &[], &["run", "${A:-b c}", "d"]),
        ];
        for (command, args, expected) in rows {
            let mut server = server(command, args);
            let mut context = ReadContext::new(FileShape::Native);
            split(&mut server, &mut context);
            let found: Vec<&str> = server.command.iter().chain(&server.args).map(|word| word.text.as_str()).collect();
            assert_eq!(found, expected, "{command} {args:?}");
            assert_eq!(context.notices.is_empty(), found[0] == command, "{command}");
        }
    }

    #[test]
    fn what_would_start_us_again_is_seen() {
        let rows: [(&str, &[&str], bool); 15] = [
            ("toolgate", &["serve"], true),
            ("/opt/bin/toolgate", &["--config", "f", "serve", "--stdio"], true),
            ("/opt/bin/toolgate", &["--config=f", "serve"], true),
            // A gateway with another configuration is not a loop.
            ("/opt/bin/toolgate", &["--config", "x", "serve"], false),
            ("sh", &["-c", "exec toolgate serve --config=x"], false),
            ("C:\\bin\\ToolGate.exe", &["serve"], true),
            ("env", &["-i", "A=b", "toolgate", "serve"], true),
            ("npx", &["-y", "@x/toolgate@1.0", "serve"], true),
            ("sh", &["-c", "exec toolgate serve"], true),
            ("bash", &["-lc", "env A=b toolgate serve"], true),
            ("toolgate", &["demo-server"], false),
            ("node", &["toolgate", "serve"], false),
            ("mytoolgate", &["serve"], false),
            ("sh", &["-c"], false),
            ("env", &[], false),
        ];
        for (command, args, expected) in rows {
            assert_eq!(starts_gateway(&server(command, args)), expected, "{command} {args:?}");
        }
    }
    #[test]
    fn this_very_program_is_known_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        std::os::unix::fs::symlink(&this, folder.path().join("gate")).unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        let by_path = folder.path().join("gate").display().to_string();
        let script = format!("exec {by_path} serve");
        let rows: [(&[&str], bool); 9] = [
            (&["gate", "serve"], true),
            (&["./gate", "serve"], true),
            (&[&by_path, "serve"], true),
            (&["env", "-i", "A=b", &by_path, "serve"], true),
            (&["sh", "-c", &script], true),
            (&["gate", "--config", "other.yaml", "serve"], false),
            (&["gate", "demo-server"], false),
            (&["other", "serve"], false),
            (&["nobody", "serve"], false),
        ];
        for (line, expected) in rows {
            let found = is_this_program(line, Path::new("f"), folder.path().to_str(), folder.path());
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
