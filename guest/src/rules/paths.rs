//! Whether a path is inside a folder, by its text alone: links are for the host, and for whoever opens the file.

/// Reports whether a path is this folder or inside it; `None` if one of them means different things to different programs.
pub(super) fn is_within(path: &str, folder: &str) -> Option<bool> {
    Some(parts(path)?.starts_with(&parts(folder)?))
}

/// Returns the names of an absolute path, without `.` and `..`; a drive is a name too.
fn parts(path: &str) -> Option<Vec<String>> {
    // A `~` or a variable is replaced by some programs, and a `%` is unescaped by some.
    if path.starts_with('~') || path.contains(['$', '%']) || path.chars().any(char::is_control) {
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
        ] {
            assert_eq!(is_within(path, "/srv/agent"), expected, "{path}");
        }
        assert_eq!(is_within("C:\\agent\\a", "C:/agent"), Some(true));
        assert_eq!(is_within("D:\\agent\\a", "C:/agent"), Some(false));
        assert_eq!(is_within("/anything", "/"), Some(true));
    }
}
