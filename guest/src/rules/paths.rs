//! Whether a path is inside a folder, by its text alone: links are for the host, and for whoever opens the file.

use unicode_normalization::UnicodeNormalization;

use crate::broad::{case_folded, changes_signs};

/// Reports whether a path is this folder or inside it; `None` if one of them means different things to different programs.
pub(super) fn is_within(path: &str, folder: &str) -> Option<bool> {
    let (path, folder) = (parts(path)?, parts(folder)?);
    if path.starts_with(&folder) {
        return Some(true);
    }
    // Some file systems ignore case, and how letters are composed.
    let is_same_folder = path.len() >= folder.len()
        && path.iter().zip(&folder).all(|(part, of_folder)| folded(part) == folded(of_folder));
    if is_same_folder { None } else { Some(false) }
}

/// Returns a name as file systems have it that ignore case.
fn folded(name: &str) -> String {
    if name.is_ascii() { name.to_ascii_lowercase() } else { case_folded(&name.nfd().collect::<String>()) }
}

/// Returns the names of an absolute path, without `.` and `..`; a drive is a name too.
fn parts(path: &str) -> Option<Vec<String>> {
    // A `~` or a variable is replaced by some programs, and a `%` is unescaped by some. The long s and the Kelvin sign
    // are an s and a k where case is ignored. Signs that only look like points
    // and slashes become such in some programs, and invisible ones vanish.
    let is_odd =
        path.starts_with('~') || path.contains(['$', '%', '\u{17f}', '\u{212a}']) || path.chars().any(char::is_control);
    if is_odd || changes_signs(path) {
        return None;
    }
    let path = match path.strip_prefix("file://") {
        Some(url) if url.contains(['?', '#']) => return None,
        Some(url) => url,
        None => path,
    };
    let is_drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    // Elsewhere, a backslash is a letter like any other.
    if !is_drive && (!path.starts_with('/') || path.contains('\\')) {
        return None;
    }
    // On Windows, `~1` is the end of a short name, a second colon begins another stream of a file, and a path that does
    // not go on with a slash begins in the folder of the process.
    if is_drive && (path[2..].contains(['~', ':']) || !path[2..].is_empty() && !path[2..].starts_with(['/', '\\'])) {
        return None;
    }
    let mut parts: Vec<String> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if is_drive && parts.len() <= 1 => return None,
            ".." => {
                parts.pop();
            }
            // Some programs drop blanks and points at the end of a name.
            part if part.trim_end_matches(['.', ' ']) != part => return None,
            part if is_drive && parts.is_empty() => parts.push(part.to_ascii_uppercase()),
            part => parts.push(part.to_owned()),
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_whatever_way_it_takes() {
        for (path, expected) in [
            ("/srv/agent", Some(true)),
            ("/srv/agent/a/b.txt", Some(true)),
            ("/srv/agent/../agent/a", Some(true)),
            ("//srv//agent/./a", Some(true)),
            ("file:///srv/agent/a", Some(true)),
            ("/srv/agent/../../etc", Some(false)),
            ("/srv/agents", Some(false)),
            ("/srv/agent/..", Some(false)),
            ("/srv/agent\\..\\..\\etc", None),
            ("/etc/cron.d/x\\..\\..\\..\\srv\\agent\\a", None),
            ("file:///etc/passwd?/../../srv/agent/x", None),
            ("file:///etc/passwd#/../../srv/agent/x", None),
            ("C:/../srv/agent/x", None),
            ("srv/agent/a", None),
            ("~/srv/agent", None),
            ("/srv/agent/$HOME", None),
            ("/srv/agent/%2e%2e/x", None),
            ("/srv/agent/.. /x", None),
            ("/srv/agent/a\0/../../etc", None),
            ("", None),
            ("/srv/AGENT/a", None),
            ("/Srv/agent", None),
            ("/srv/other/../AGENT", None),
            ("/srv/agent/‥/x", None),
            ("/srv/agent/．．/x", None),
            ("/srv/agent/․․/x", None),
            ("/srv/agent/..\u{200b}/x", None),
            ("/srv/agent/..\u{ad}", None),
            ("/srv/agent/..\u{a0}/x", None),
            ("/srv/agent/..\u{3000}/x", None),
            ("/srv/agent/..\u{2800}/x", None),
            ("/srv/agent/..\u{3164}/x", None),
            ("/srv/agent/ ../x", None),
            ("/srv/agent／../x", None),
            ("/srv/agent∕..∕x", None),
            ("/srv\u{2028}/agent", None),
            ("/srv/\u{17f}ecret", None),
            ("/srv/agent/日本/é", Some(true)),
        ] {
            assert_eq!(is_within(path, "/srv/agent"), expected, "{path}");
        }
        assert_eq!(is_within("C:\\agent\\a", "C:/agent"), Some(true));
        assert_eq!(is_within("D:\\agent\\a", "C:/agent"), Some(false));
        assert_eq!(is_within("c:\\agent\\a", "C:/agent"), Some(true));
        assert_eq!(is_within("C:/AGENT/a", "C:/agent"), None);
        assert_eq!(is_within("C:/PROGRA~1/a", "C:/Program Files"), None);
        assert_eq!(is_within("C:/agent/a:b", "C:/agent"), None);
        assert_eq!(is_within("C:agent/a", "C:/"), None);
        assert_eq!(is_within("/anything", "/"), Some(true));
        // Composed and not composed.
        assert_eq!(is_within("/srv/jose\u{301}/a", "/srv/josé"), None);
        assert_eq!(is_within("/srv/STRASSE", "/srv/straße"), None);
    }
}
