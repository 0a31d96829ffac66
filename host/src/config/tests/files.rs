use std::fs;

use super::super::model::{FileShape, TransportKind};
use super::super::{demo, load};

#[test]
fn a_file_that_cannot_be_a_configuration_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let rows = [
        (folder.path().join("nothing.yaml"), "cannot be read: "),
        (folder.path().to_path_buf(), "this is a folder; name the file in it"),
        (write("latin.yaml", b"a: 1\nbc: \xe9"), ":2:5: not UTF-8 text; save the file as UTF-8"),
        (
            write("toolgate.json", &vec![b' '; 4 * 1024 * 1024 + 1]),
            "larger than 4194304 bytes, which is too large for a configuration",
        ),
        (write("empty.yaml", b""), "the file is empty; begin with `servers:`, or see `toolgate schema`"),
    ];
    for (path, expected) in rows {
        let error = load(&path).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()) && error.contains(expected), "{error}");
    }
    let history = format!(r#"{{"history": ["{}"], "mcpServers": {{"a": {{"command": "x"}}}}}}"#, "x".repeat(5 << 20));
    assert_eq!(load(&write(".claude.json", history.as_bytes())).unwrap().servers.len(), 1);
    let config =
        load(&write("windows.json", "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}\r\n".as_bytes())).unwrap();
    assert_eq!((config.shape, config.servers.len()), (FileShape::McpServers, 1));
}

#[cfg(unix)]
#[test]
fn a_pipe_with_a_name_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let error = load(&pipe).unwrap_err().to_string();
    assert!(error.ends_with("pipe.yaml: this is not a regular file; name one, or /dev/stdin"), "{error}");
}

#[test]
fn the_demo_is_one_server_of_our_own_program() {
    let config = demo("/opt/${x}/toolgate".to_owned());
    let server = &config.servers[0];
    assert_eq!((server.id.as_str(), server.kind, config.file.as_deref()), ("demo", TransportKind::Stdio, None));
    assert_eq!(server.command.as_ref().unwrap().text, "/opt/$${x}/toolgate");
    assert_eq!(server.args[0].text, "demo-server");
}
