//! Tests runs that end from outside: by a signal, or because nobody reads the output.
#![cfg(unix)]

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::place::{Place, and, demo, fixture, fixture_with};

/// No test waits longer than this for what never happens.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_signal_during_a_call_ends_it_and_leaves_no_process() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let output = interrupted(&["call", "slow.do"], "hangs-in-call", signal);
        assert_eq!(output.status.code(), Some(130), "{signal:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n", "{signal:?}");
        assert!(output.stdout.is_empty(), "{signal:?}: {output:?}");
    }
}

#[test]
fn a_signal_while_a_server_starts_leaves_no_process() {
    for command in ["tools", "check"] {
        let output = interrupted(&[command], "hangs", Signal::TERM);
        assert_eq!(output.status.code(), Some(130), "{command}: {output:?}");
    }
}

#[test]
fn a_kill_leaves_no_process() {
    let output = interrupted(&["call", "slow.do"], "hangs-in-call", Signal::KILL);
    assert_eq!(output.status.code(), None, "{output:?}");
}

/// How a command ends that gets this signal while a server hangs; no process is left then.
fn interrupted(command: &[&str], habit: &str, signal: Signal) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let entry = and(fixture_with(habit, &[&port]), json!({"grace": "100ms"}));
    let mark = format!("marked-{port}-{}", signal.as_raw());
    let place = Place::with(json!({"slow": entry})).set("TOOLGATE_TEST_MARK", &mark);
    let child = place.command(command).spawn().unwrap();

    // The server connects once it hangs, and has a child that will not go by itself.
    let mut server = accept(&listener);
    server.set_read_timeout(Some(LONG)).unwrap();
    server.read_exact(&mut [0]).expect("the server hangs");
    #[cfg(target_os = "linux")]
    assert!(marked(&mark).len() >= 3, "the mark is on toolgate, the server and its child");
    send(&child, signal);

    let output = child.wait_with_output().unwrap();
    // The connection ends with the last process that has it.
    assert_eq!(server.read(&mut [0]).expect("all processes are gone"), 0, "{signal:?}");
    #[cfg(target_os = "linux")]
    assert_eq!(marked(&mark), Vec::<u32>::new(), "{signal:?}");
    output
}

#[test]
fn a_normal_end_leaves_no_process() {
    let place = Place::with(json!({"demo": demo(), "other": fixture("ok"), "dies": fixture("dies")}));
    let place = place.set("TOOLGATE_TEST_MARK", "marked-normal-end");
    place.run(&["call", "other.do"]).ends(0);
    place.run(&["call", "dies.do"]).ends(4);
    place.run(&["check"]).ends(0);
    #[cfg(target_os = "linux")]
    assert_eq!(marked("marked-normal-end"), Vec::<u32>::new());
}

#[test]
fn the_demo_server_ends_with_its_input() {
    let mut child = Place::new().command(&["demo-server"]).stdin(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    assert!(until("an end", || child.try_wait().unwrap()).success());
}

#[test]
fn an_output_that_nobody_reads_is_no_failure() {
    let place = Place::with(json!({"demo": demo(), "away": {"command": "no-such-program-here"}}));
    for arguments in [
        &["tools"][..],
        &["tools", "--json"],
        &["call", "demo.echo", "hello"],
        &["resources"],
        &["check", "--server", "demo"],
        &["schema"],
        &["completions", "bash"],
        &["component", "--wit"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(arguments).stdout(writer).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_disk_that_is_full_is_a_failure() {
    let place = Place::with(json!({"demo": demo()}));
    place.file("work/line", "{\"op\":\"nothing\"}\n");
    for arguments in
        [&["call", "demo.echo", "hello"][..], &["eval"], &["route", "demo.echo", "hi"], &["schema"], &["component"]]
    {
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            eprintln!("skipped: there is no /dev/full here");
            return;
        };
        let mut command = place.command(arguments);
        command.stdin(File::open(place.path("work/line")).unwrap());
        let output = command.stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(70), "{arguments:?} {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("error: the answer cannot be written"), "{arguments:?} {output:?}");
    }
}

#[test]
fn messages_that_nobody_reads_change_nothing() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["tools"][..], 0),
        (&["tools", "-vvv"], 0),
        (&["call", "demo.echo", "hello"], 0),
        (&["call", "demo.nope"], 5),
        (&["route", "demo.nope"], 5),
        (&["check"], 2),
        (&["nonsense"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(arguments).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
        assert_eq!(output.stdout.is_empty(), expected != 0, "{arguments:?}");
    }
}

pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let stream = until("a server", || listener.accept().ok()).0;
    stream.set_nonblocking(false).unwrap();
    stream
}

pub fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "no {what}");
        std::thread::yield_now();
    }
}

pub fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The processes with this mark among their variables.
#[cfg(target_os = "linux")]
fn marked(mark: &str) -> Vec<u32> {
    let has_mark = |pid: &u32| {
        // A process that is gone, or of somebody else, has nothing to read.
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable.ends_with(mark.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(has_mark).collect()
}
