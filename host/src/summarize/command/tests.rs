//! Real subprocesses: shells.

use super::super::{Summarizer, SummaryLimits};
use super::*;
use crate::transport::waiting::{DEADLINE, until};

fn shell(script: &str) -> SummaryCommand {
    SummaryCommand {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]),
        secrets: Secrets::default(),
    }
}

fn patient(command: SummaryCommand) -> Summarizer {
    Summarizer::Command(command, SummaryLimits { timeout: DEADLINE, max_input_bytes: 8 << 20 })
}

fn task(text: &str) -> SummaryTask<'_> {
    SummaryTask { server: "kube", tool: "get pods; exit 1", text }
}

async fn run(script: &str, text: &str) -> Result<String, SummarizeError> {
    patient(shell(script)).summarize(task(text)).await
}

/// A variable that marks a program and all its descendants.
struct Marker(String);

impl Marker {
    fn new() -> Self {
        Marker(format!("{}-{:016x}", std::process::id(), fastrand::u64(..)))
    }

    fn on(&self, mut command: SummaryCommand) -> SummaryCommand {
        command.env.insert("MARKER".to_owned(), self.0.clone());
        command
    }

    /// Counts the processes that have it; a zombie has no variables.
    fn count(&self) -> usize {
        let wanted = format!("MARKER={}", self.0);
        let has = |environ: Vec<u8>| environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter(|process| std::fs::read(process.path().join("environ")).is_ok_and(has)).count()
    }
}

#[tokio::test]
async fn a_program_reads_the_text_and_writes_the_summary() {
    let script = "echo; echo \"$TOOLGATE_SERVER/$TOOLGATE_TOOL\"; wc -c; cat /dev/null; echo";
    assert_eq!(run(script, "äöü").await.unwrap(), "kube/get pods; exit 1\n6");
    assert_eq!(run("cat", "  a\r\nb \n\n").await.unwrap(), "a\r\nb");
    assert_eq!(run("printf 'a\\377b'", "").await.unwrap(), "a\u{fffd}b");
}

#[tokio::test]
async fn a_program_gets_the_environment_that_is_given_and_no_other() {
    let mut command = shell("env | cut -d= -f1 | grep -vx -e PWD -e SHLVL -e _ -e OLDPWD | sort | tr '\\n' ' '");
    command.env.insert("KEY".to_owned(), "1".to_owned());
    command.env.insert("TOOLGATE_TOOL".to_owned(), "another".to_owned());
    let summary = patient(command).summarize(task("")).await.unwrap();
    assert_eq!(summary, "KEY PATH TOOLGATE_SERVER TOOLGATE_TOOL");
}

#[tokio::test]
async fn a_program_need_not_read_what_it_is_given() {
    let text = "x".repeat(4 << 20);
    assert_eq!(run("echo short", &text).await.unwrap(), "short");
    assert_eq!(run("exec <&-; echo short", &text).await.unwrap(), "short");
    // More than fits into a pipe goes both ways at once.
    assert_eq!(run("tee /dev/stderr | wc -c", &text).await.unwrap(), text.len().to_string());
}

#[tokio::test]
async fn a_long_text_is_cut_before_it_is_handed_over() {
    let summarizer = Summarizer::Command(shell("cat"), SummaryLimits { timeout: DEADLINE, max_input_bytes: 3 });
    let summary = summarizer.summarize(task("aöüß")).await.unwrap();
    assert_eq!(summary, "aö\n\n[CUT: these are the first 3 of 7 bytes]");
}

#[tokio::test]
async fn what_is_no_summary_is_an_error() {
    let flood = format!("head -c {} /dev/zero >&2; echo >&2; echo end >&2; exit 7", 1 << 20);
    let rows = [
        ("true", "summarizer: an empty summary"),
        ("echo ' '; echo", "summarizer: an empty summary"),
        ("echo summary; exit 3", "summarizer: \"sh\" ended with code 3"),
        ("echo first >&2; printf ' last\\033[1m\\n\\n' >&2; exit 3", "summarizer: \"sh\" ended with code 3: last [1m"),
        ("kill -9 $$", "summarizer: \"sh\" ended with signal 9"),
        ("yes", "summarizer: an answer of more than 262144 bytes"),
        (&flood, "summarizer: \"sh\" ended with code 7: end"),
        (
            "printf 'x%.0s' $(seq 1000) >&2; exit 1",
            &format!("summarizer: \"sh\" ended with code 1: {}…", "x".repeat(300)),
        ),
    ];
    for (script, message) in rows {
        let error = run(script, "the secret text").await.unwrap_err();
        assert_eq!(error.to_string(), message, "{script}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn the_longest_summary_is_whole() {
    let script = format!("head -c {MOST} /dev/zero | tr '\\0' x");
    assert_eq!(run(&script, "").await.unwrap(), "x".repeat(MOST));
}

#[tokio::test]
async fn a_program_that_does_not_start_is_an_error() {
    let check = |command: SummaryCommand| async {
        let error = patient(command).summarize(task("")).await.unwrap_err();
        assert!(matches!(error, SummarizeError::Start { .. }), "{error:?}");
        error.to_string()
    };
    let missing = SummaryCommand { command: "/no/such program".to_owned(), ..shell("") };
    assert_eq!(check(missing).await, "summarizer: \"/no/such program\" could not be started");
    let error = patient(shell("cat")).summarize(SummaryTask { server: "a\0b", tool: "", text: "" }).await.unwrap_err();
    assert!(matches!(error, SummarizeError::Start { .. }), "{error:?}");
}

#[tokio::test]
async fn secrets_are_seen_neither_in_errors_nor_in_debug() {
    let mut command = shell("echo \"bad key $KEY\" >&2; exit 1");
    command.env.insert("KEY".to_owned(), "s3cr3t-value".to_owned());
    command.args.push("s3cr3t-value".to_owned());
    command.secrets.add("s3cr3t-value");
    let summarizer = patient(command);
    let error = summarizer.summarize(task("")).await.unwrap_err();
    assert!(error.to_string().starts_with("summarizer: \"sh\" ended with code 1: bad key ["), "{error}");
    let shown = format!("{error} {error:?} {summarizer:?}");
    assert!(shown.contains("KEY") && !shown.contains("s3cr3t"), "{shown}");
}

/// Processes that ignore signals: the program, another shell, and a `sleep` of each.
const FAMILY: &str = "trap '' TERM HUP INT; sh -c 'sleep 1000; :' & sleep 1000; :";
const MEMBERS: usize = 4;

#[tokio::test]
async fn the_time_limit_kills_all_of_the_group() {
    let mut timeout = Duration::from_millis(50);
    loop {
        let marker = Marker::new();
        let limits = SummaryLimits { timeout, max_input_bytes: 100 };
        let summarizer = Summarizer::Command(marker.on(shell(FAMILY)), limits);
        let (mut running, mut seen) = (pin!(summarizer.summarize(task(""))), 0);
        let error = loop {
            tokio::select! {
                ended = &mut running => break ended.unwrap_err(),
                () = tokio::time::sleep(Duration::from_millis(2)) => seen = seen.max(marker.count()),
            }
        };
        assert_eq!(error.to_string(), format!("summarizer: no summary within {timeout:?}"));
        until("the end of all", || marker.count() == 0).await;
        // On a busy machine the limit may come before all processes have started.
        if seen == MEMBERS {
            break;
        }
        timeout *= 2;
        assert!(timeout < DEADLINE, "the family never grew: {seen}");
    }
}

#[tokio::test]
async fn dropping_the_future_kills_all_of_the_group_and_leaves_no_zombie() {
    let marker = Marker::new();
    let summarizer = patient(marker.on(shell(FAMILY)));
    {
        let mut running = pin!(summarizer.summarize(task("")));
        tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            () = until("the family", || marker.count() == MEMBERS) => {}
        }
    }
    until("the end of all", || marker.count() == 0).await;
    until("no zombie", || children() == 0).await;
}

/// Counts the child processes of this thread, including dead ones; tests of other threads have children of their own.
fn children() -> usize {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap();
    children.split_whitespace().count()
}

#[tokio::test]
async fn an_endless_summary_ends_the_program() {
    let marker = Marker::new();
    let summarizer = patient(marker.on(shell("sleep 1000 & yes")));
    let error = summarizer.summarize(task("")).await.unwrap_err();
    assert!(matches!(error, SummarizeError::TooLarge { max: MOST }), "{error}");
    until("the end of all", || marker.count() == 0).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_neither_delays_the_summary_nor_outlives_it() {
    // One child holds the pipes, the other does not.
    for redirect in ["", "</dev/null >/dev/null 2>&1"] {
        let marker = Marker::new();
        let summarizer = patient(marker.on(shell(&format!("sleep 1000 {redirect} & echo done"))));
        assert_eq!(summarizer.summarize(task("")).await.unwrap(), "done");
        until("the end of all", || marker.count() == 0).await;
    }
}
