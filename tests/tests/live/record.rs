//! Tests records: they replay to the same decisions, changes are detected, and they hold no secrets.

mod trying;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use toolgate::config;
use toolgate::config::secrets::Secrets;
use toolgate::demo::InProcessDemo;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateView};
use toolgate::logic::types::execution::ToolCall;
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::logic::{Component, EMBEDDED};
use toolgate::record::line::{MaskedPart, Record};
use toolgate::record::{Backtest, BacktestReport, Candidate, RecordFilter, RecordLines, folder, line};
use toolgate::registry::{Registry, RegistryOptions};
use toolgate::transport::Connect;

use super::fixtures::component;

/// Demo servers behind a gate whose calls are recorded.
struct Stage {
    folder: TempDir,
    registry: Arc<Registry>,
    gate: Gate,
}

impl Stage {
    fn new(settings: &str, view: GateView) -> Self {
        Self::of(&component(), settings, view)
    }

    fn of(component: &Component, settings: &str, view: GateView) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("records");
        Self::recording_in(folder, dir, component, settings, view)
    }

    fn recording_in(folder: TempDir, dir: PathBuf, component: &Component, settings: &str, view: GateView) -> Self {
        let yaml = format!(
            "{settings}\nservers:\n  one: {{command: none, env: {{TOKEN: {TOKEN}}}}}\n  two: {{command: none}}\n"
        );
        let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
        let demo = || Arc::new(InProcessDemo) as Arc<dyn Connect>;
        let transports = HashMap::from([("one".to_owned(), demo()), ("two".to_owned(), demo())]);
        let mut secrets = Secrets::default();
        secrets.add(TOKEN);
        let secrets = Arc::new(Mutex::new(secrets));
        let options = RegistryOptions { transports, secrets, record: Some(dir), ..RegistryOptions::default() };
        let registry = Registry::new(component, config, options).expect("the component starts");
        let gate = Gate::open(&registry, view).expect("the gate opens");
        Stage { folder, registry, gate }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    async fn call(&self, id: &str, name: &str, arguments: &str) -> CallOutcome {
        call(&self.gate, "ann", id, name, arguments).await
    }

    /// A gate that may use one of the servers alone.
    fn narrow(&self) -> Gate {
        let selection = Some(vec![SelectedServer { id: "one".to_owned(), tools: Vec::new() }]);
        Gate::open(&self.registry, GateView { selection, ..GateView::default() }).expect("the gate opens")
    }

    /// The usual calls: one that goes well, some that do not.
    async fn calls(&self) {
        for (at, (name, arguments)) in CALLS.iter().enumerate() {
            self.call(&format!("call-{at}"), name, arguments).await;
        }
    }

    /// All is written.
    fn written(&self) -> PathBuf {
        let recorder = self.registry.recorder().expect("calls are recorded");
        assert!(recorder.flush(LONG), "{:?}", recorder.stats());
        self.dir()
    }
}

async fn call(gate: &Gate, principal: &str, id: &str, name: &str, arguments: &str) -> CallOutcome {
    let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    let options = CallOptions { principal: Some(principal.into()), ..CallOptions::default() };
    gate.call(call, &options).await.expect("the component answers")
}

fn backtest(dir: &Path, candidate: Candidate) -> Backtest {
    let options = component().options().clone();
    Backtest { dirs: vec![dir.to_owned()], candidate, filter: RecordFilter::default(), options, threads: 2 }
}

pub(crate) fn replay(dir: &Path) -> BacktestReport {
    backtest(dir, Candidate::default()).run(&|_| {}).expect("there are records")
}

/// All records of a folder.
pub(crate) fn records(dir: &Path) -> Vec<Record> {
    let (mut lines, mut line, mut found) = (RecordLines::of(dir).unwrap(), Vec::new(), Vec::new());
    while lines.next(&mut line).unwrap().is_some() {
        found.push(line::read(&line).expect("the record is whole"));
    }
    found
}

/// All that is in a folder, as text.
fn all_text(dir: &Path) -> String {
    let mut text = String::new();
    for folder in [dir.to_owned(), dir.join("parts")] {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                text.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    text
}

/// The only file of records in a folder.
fn file(dir: &Path) -> PathBuf {
    let mut segments = folder::segments(dir).unwrap();
    assert_eq!(segments.len(), 1);
    segments.remove(0).path
}

const CALLS: [(&str, &str); 7] = [
    ("one__add", "a: 1, b: 2"),
    ("one__echo", r#"{"text":"hello"}"#),
    ("two.forecast", "city: Rome"),
    ("one__fail", "message: no luck"),
    ("one__nothing", ""),
    ("three.x", ""),
    ("one__add", "a: 1"),
];
const TOKEN: &str = "configured-token-0451";
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn calls_replay_as_they_were_and_small_ones_are_small() {
    for settings in ["", "masking: {groups: [all]}", "record: {raw: true}", "max_result_bytes: 3"] {
        let stage = Stage::new(settings, GateView::default());
        stage.calls().await;
        let dir = stage.written();
        let found = records(&dir);
        assert_eq!(found.len(), CALLS.len(), "{settings}");
        assert!(found.iter().all(|record| record.principal.as_deref() == Some("ann")));
        let report = replay(&dir);
        assert!(report.is_sound(), "{settings}: {report:?}");
        assert_eq!((report.records, report.same), (7, 7), "{settings}: {report:?}");
        let text = std::fs::read_to_string(file(&dir)).unwrap();
        let longest = text.lines().map(str::len).max().unwrap();
        assert!(longest <= 2048, "{settings}: {longest}\n{text}");
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_recorded_too() {
    let stage = Stage::new("", GateView::default());
    stage.gate.refresh().await;
    {
        let call = stage.call("given-up", "one__sleep", "seconds: 60");
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    }
    let dir = stage.written();
    let found = records(&dir);
    let kinds: Vec<_> = found[0].steps.iter().map(|step| step.directive.kind()).collect();
    assert_eq!((found.len(), kinds), (1, vec!["request"]));
    assert_eq!(replay(&dir).same, 1);
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_write_loses_the_unfinished_record_alone() {
    let stage = Stage::new("", GateView::default());
    stage.calls().await;
    let dir = stage.written();
    let path = file(&dir);
    let whole = std::fs::read(&path).unwrap();
    for missing in [1, 10, 500] {
        std::fs::write(&path, &whole[..whole.len() - missing]).unwrap();
        let report = replay(&dir);
        assert_eq!((report.records, report.unfinished, report.is_sound()), (6, 1, true), "{missing}: {report:?}");
    }
}

#[tokio::test]
async fn what_was_changed_or_taken_out_is_noticed() {
    let stage = Stage::new("", GateView::default());
    stage.calls().await;
    let dir = stage.written();
    let path = file(&dir);
    let whole = std::fs::read(&path).unwrap();
    // Any byte of any record. Without its line end, the last one counts as unfinished.
    for at in (0..whole.len() - 1).step_by(97) {
        let mut changed = whole.clone();
        changed[at] ^= 4;
        std::fs::write(&path, &changed).unwrap();
        let report = replay(&dir);
        assert!(!report.is_sound() && report.damages > 0, "byte {at}: {report:?}");
    }
    // Any line but the last, whose end nobody can know.
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for gone in 0..lines.len() - 1 {
        let left: Vec<u8> =
            lines.iter().enumerate().filter(|(at, _)| *at != gone).flat_map(|(_, line)| line.to_vec()).collect();
        std::fs::write(&path, &left).unwrap();
        let report = replay(&dir);
        // The records that are left are sound, the one after the gap too.
        assert_eq!((report.damages, report.records, report.same), (1, 6, 6), "line {gone}: {report:?}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(replay(&dir).is_sound());
    // What they share.
    for entry in std::fs::read_dir(dir.join("parts")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "wasm") {
            continue;
        }
        let whole = std::fs::read(&path).unwrap();
        let mut changed = whole.clone();
        changed[0] ^= 1;
        std::fs::write(&path, changed).unwrap();
        let report = replay(&dir);
        let missing: Vec<_> = report.missing.keys().collect();
        assert!(!report.is_sound() && missing.iter().any(|what| what.contains("was changed")), "{path:?}: {report:?}");
        std::fs::remove_file(&path).unwrap();
        let report = replay(&dir);
        assert!(report.missing.keys().any(|what| what.ends_with("is missing")), "{path:?}: {report:?}");
        std::fs::write(&path, whole).unwrap();
    }
    assert!(replay(&dir).is_sound());
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_is_removed_under_a_recorder_is_made_again_with_all_that_records_need() {
    let stage = Stage::new("", GateView::default());
    stage.calls().await;
    std::fs::remove_dir_all(stage.written()).unwrap();
    stage.calls().await;
    let report = replay(&stage.written());
    // What was removed is noticed.
    assert_eq!((report.records, report.same, report.is_sound()), (7, 7, false), "{report:?}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_changes_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    // Below a file there are no folders, whoever asks.
    let stage = Stage::recording_in(folder, blocked.join("records"), &component(), "", GateView::default());
    let other = Stage::new("", GateView::default());
    for (name, arguments) in CALLS {
        let (one, two) = (stage.call("1", name, arguments).await, other.call("1", name, arguments).await);
        assert_eq!(one.result, two.result);
    }
    let recorder = stage.registry.recorder().unwrap();
    assert!(recorder.flush(LONG));
    let stats = recorder.stats();
    assert_eq!((stats.written, stats.failed, stats.dropped), (0, CALLS.len() as u64, 0), "{stats:?}");
    stage.registry.close().await;
}

#[tokio::test]
async fn no_secret_is_in_a_record() {
    let settings = "masking: {groups: [all]}";
    for (settings, masks) in [(settings, true), ("", false), ("max_result_bytes: 9", false)] {
        let stage = Stage::new(settings, GateView::default());
        let secrets = ["hunter2-and-more", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"];
        let rows = [
            format!("text: {TOKEN}"),
            format!("{{\"text\": \"the token is {TOKEN}, and no other\"}}"),
            format!("text: 'password={}'", secrets[0]),
            format!("{{\"text\": \"api_key: {}\", \"password\": \"{}\"}}", secrets[1], secrets[0]),
            format!("password: {}", secrets[0]),
            format!("text: |\n  password: {}\n  and: [more]\n", secrets[0]),
            format!("message: 'password={} {TOKEN}'", secrets[0]),
        ];
        for (at, arguments) in rows.iter().enumerate() {
            for name in ["one__echo", "one__fail", TOKEN, "two__nothing"] {
                stage.call(&format!("{name}-{at}").replace(TOKEN, "x"), name, arguments).await;
            }
        }
        let dir = stage.written();
        let stats = stage.registry.recorder().unwrap().stats();
        assert_eq!((stats.written, stats.withheld), (28, 0), "{settings}: {stats:?}");
        let text = all_text(&dir);
        assert!(!text.contains(TOKEN), "{settings}");
        assert!(records(&dir).iter().any(|record| record.masked.contains(&MaskedPart::Arguments)));
        if masks {
            for secret in secrets {
                let line = text.lines().find(|line| line.contains(secret));
                assert!(line.is_none(), "{}", line.unwrap_or_default());
            }
        }
        let report = replay(&dir);
        assert!(report.is_sound(), "{settings}: {report:?}");
        assert_eq!(report.same + report.unreplayable, report.records, "{settings}: {report:?}");
        assert!(report.unreplayable <= 4, "{settings}: {report:?}");
    }
}

#[tokio::test]
async fn raw_records_hold_answers_whole_but_no_secret_of_the_configuration() {
    let stage = Stage::new("record: {raw: true}", GateView::default());
    stage.call("1", "one__echo", "text: 'password=hunter2-and-more'").await;
    stage.call("2", "one__echo", &format!("text: {TOKEN}")).await;
    let dir = stage.written();
    let text = all_text(&dir);
    assert!(text.contains("hunter2-and-more") && !text.contains(TOKEN), "{text}");
    assert_eq!(replay(&dir).same, 2);
}

/// The embedded component under another digest: a section that nobody reads is added.
fn another_component() -> Component {
    let mut bytes = EMBEDDED.to_vec();
    bytes.extend([0, 5, 4, b'n', b'o', b't', b'e']);
    Component::from_bytes(&bytes, component().options()).expect("it is the same but for a note")
}

#[tokio::test]
async fn records_of_another_component_replay_on_it_or_say_that_it_is_missing() {
    let other = another_component();
    let stage = Stage::of(&other, "", GateView::default());
    stage.calls().await;
    let dir = stage.written();
    let report = replay(&dir);
    assert_eq!((report.same, report.is_sound()), (7, true), "{report:?}");
    std::fs::remove_file(folder::SharedPart::Component.path(&dir, other.digest())).unwrap();
    let report = replay(&dir);
    assert!(!report.is_sound() && report.same == 0, "{report:?}");
    let (missing, count) = report.missing.iter().next().unwrap();
    assert!(missing.contains(&other.digest()[..12]) && missing.contains("--logic") && *count == 7, "{missing}");
    // Whoever has it can give it.
    let report = backtest(&dir, Candidate { component: Some(other), config: None }).run(&|_| {}).unwrap();
    assert_eq!((report.same, report.is_sound()), (7, true), "{report:?}");
}
