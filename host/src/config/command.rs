//! Command lines: those written as one text, and those that would start us again.

use super::model::{Kind, Located, Server};
use super::reading::Reading;

/// Splits `npx -y pkg` into a program and its arguments, where no program could have such a name.
pub fn split(server: &mut Server, reading: &mut Reading) {
    let Some(command) = server.command.as_ref().filter(|_| server.kind == Kind::Stdio) else { return };
    let Some(mut words) = words(command.text.trim()).filter(|words| words.len() > 1) else { return };
    if !is_line(&words, server.args.is_empty()) {
        return;
    }
    let text =
        format!("command is read as a program and {} arguments; better write them under `args`", words.len() - 1);
    let place = command.place.clone();
    reading.notice(&place, text);
    let located = |text: String| Located { text, place: place.clone(), field: String::new() };
    let program = words.remove(0);
    server.command = Some(Located { field: "command".to_owned(), ..located(program) });
    server.args.splice(0..0, words.into_iter().map(located));
    for (at, arg) in server.args.iter_mut().enumerate() {
        arg.field = format!("args[{at}]");
    }
}

/// Whether the words are a program with arguments, and not the path of a program with spaces in it.
fn is_line(words: &[String], without_args: bool) -> bool {
    let is_flag = |word: &String| word.len() > 1 && word.starts_with('-');
    let is_path = words[0].contains(['/', '\\']);
    let begins_anew = |word: &String| word.starts_with(['/', '@', '$']) || word.starts_with("./");
    match (is_path, without_args) {
        (false, true) => true,
        (true, true) => words[1..].iter().any(|word| is_flag(word) || begins_anew(word)),
        // With arguments of its own, only a flag shows that the text is a line.
        (_, false) => words[1..].iter().any(is_flag),
    }
}

/// The words of a shell's line; none where a quote has no end. What stands in `${…}` is never cut.
pub fn words(line: &str) -> Option<Vec<String>> {
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
            // Before a space it escapes; elsewhere it is a part of a Windows path.
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

/// Whether the server's program is our own gateway, plainly or through a launcher.
pub fn starts_us(server: &Server) -> bool {
    let Some(command) = server.command.as_ref().filter(|_| server.kind == Kind::Stdio) else { return false };
    let line = std::iter::once(command).chain(&server.args).map(|word| word.text.clone()).collect();
    is_us(line, 0)
}

fn is_us(line: Vec<String>, depth: usize) -> bool {
    let Some((program, rest)) = line.split_first() else { return false };
    let is_flag = |word: &&String| word.starts_with('-');
    match program_name(program).as_str() {
        "toolgate" => rest.iter().any(|word| word == "serve"),
        _ if depth > 4 => false,
        "env" => {
            is_us(rest.iter().skip_while(|word| is_flag(word) || word.contains('=')).cloned().collect(), depth + 1)
        }
        "npx" | "bunx" | "pnpx" | "uvx" | "nohup" | "exec" | "sudo" | "nice" | "setsid" => {
            is_us(rest.iter().skip_while(is_flag).cloned().collect(), depth + 1)
        }
        "sh" | "bash" | "zsh" | "dash" => {
            let script = rest.iter().skip_while(|word| !(word.starts_with('-') && word.ends_with('c'))).nth(1);
            script.and_then(|script| words(script)).is_some_and(|line| is_us(line, depth + 1))
        }
        _ => false,
    }
}

/// `toolgate` of `/usr/bin/toolgate`, `toolgate.exe` and `@scope/toolgate@1.2`.
fn program_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.split_once('@').map_or(name, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::model::{Place, Shape};
    use super::*;

    fn server(command: &str, args: &[&str]) -> Server {
        let place = Place { file: Arc::from(Path::new("f")), line: 1, column: 1 };
        let located = |text: &str| Located { text: text.to_owned(), place: place.clone(), field: String::new() };
        let mut server = Server::new("a", place.clone(), Kind::Stdio);
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
            let mut reading = Reading::new(Shape::Native);
            split(&mut server, &mut reading);
            let found: Vec<&str> = server.command.iter().chain(&server.args).map(|word| word.text.as_str()).collect();
            assert_eq!(found, expected, "{command} {args:?}");
            assert_eq!(reading.notices.is_empty(), found[0] == command, "{command}");
        }
    }

    #[test]
    fn what_would_start_us_again_is_seen() {
        let rows: [(&str, &[&str], bool); 12] = [
            ("toolgate", &["serve"], true),
            ("/opt/bin/toolgate", &["--config", "x", "serve", "--stdio"], true),
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
            assert_eq!(starts_us(&server(command, args)), expected, "{command} {args:?}");
        }
    }
}
