//! Tests with real folders: what is kept, what makes room, and what is refused.

use std::error::Error;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn spill(dir: &Path, max_bytes: u64, max_age: Duration) -> SpillStore {
    SpillStore::new(SpillRules { dir: dir.to_owned(), max_bytes, max_age })
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000 + Duration::from_secs(seconds)
}

/// Returns the files in the folder, sorted, without the lock.
fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != ".lock").collect();
    names.sort();
    names
}

/// Returns the message of an error with its cause.
fn words(error: SpillError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[test]
fn a_text_is_kept_whole_and_for_its_owner_alone() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("made/on the way/");
    let text = "päge\0\r\n".repeat(1000);
    let path = spill(&dir, 1 << 20, DAY).keep("kube", "get_pods", "call-1", &text).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(names(&dir), [path.file_name().unwrap().to_str().unwrap()]);
    assert!(path.is_absolute() && path.starts_with(&dir));
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&dir), mode(dir.parent().unwrap()), mode(&path)), (0o700, 0o700, 0o600));
    }
}

#[tokio::test]
async fn a_text_is_kept_while_others_go_on() {
    let root = tempfile::tempdir().unwrap();
    let spill = spill(root.path(), 1 << 20, DAY);
    let (one, other) = tokio::join!(spill.keep_async("a", "b", "1", "one"), spill.keep_async("a", "b", "2", "other"));
    assert_eq!(fs::read_to_string(one.unwrap()).unwrap(), "one");
    assert_eq!(fs::read_to_string(other.unwrap()).unwrap(), "other");
}

#[test]
fn the_oldest_make_room_for_the_newest() {
    let root = tempfile::tempdir().unwrap();
    let spill = spill(root.path(), 100, DAY);
    let keep = |second, bytes| spill.keep_at(at(second), "a", "b", &"x".repeat(bytes)).unwrap();
    let paths = [keep(0, 40), keep(1, 40), keep(2, 20)];
    assert!(paths.iter().all(|path| path.exists()), "a hundred bytes fit");
    let fourth = keep(3, 1);
    assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
    let all = keep(4, 100);
    assert!(!fourth.exists());
    assert_eq!(names(root.path()), [all.file_name().unwrap().to_str().unwrap()]);
    let empty = keep(5, 0);
    assert!(all.exists() && empty.exists());
}

#[test]
fn what_is_too_old_goes_when_the_next_comes() {
    let root = tempfile::tempdir().unwrap();
    let spill = spill(root.path(), 100, DAY);
    let keep = |second| spill.keep_at(at(second), "a", "b", "x").unwrap();
    let (old, young) = (keep(0), keep(1));
    keep(86_401);
    assert_eq!((old.exists(), young.exists()), (false, true));
}

#[test]
fn an_age_beyond_the_beginning_of_time_is_no_age() {
    let root = tempfile::tempdir().unwrap();
    let spill = spill(root.path(), 100, Duration::MAX);
    let old = spill.keep_at(SystemTime::UNIX_EPOCH, "a", "b", "x").unwrap();
    spill.keep_at(at(0), "a", "b", "x").unwrap();
    assert!(old.exists());
}

#[test]
fn a_text_larger_than_all_may_be_is_refused_and_costs_no_other() {
    let root = tempfile::tempdir().unwrap();
    let spill = spill(root.path(), 10, DAY);
    let kept = spill.keep("a", "b", "1", "0123456789").unwrap();
    let error = spill.keep("a", "b", "2", "0123456789+").unwrap_err();
    assert_eq!(error.to_string(), "a result of 11 bytes cannot be kept: all kept results together may have 10 bytes");
    assert!(kept.exists());
}

#[test]
fn only_what_is_ours_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let ours = |name: &str| format!("{name}-b-19800101T000000000Z-0123456789abcdef");
    fs::write(root.path().join("notes.txt"), "x".repeat(1000)).unwrap();
    fs::create_dir(root.path().join(ours("folder") + ".txt")).unwrap();
    fs::write(root.path().join(ours("old") + ".txt"), "x").unwrap();
    // A process died while it wrote this.
    fs::write(root.path().join(ours("part").replace("1980", "2980") + ".part"), "x").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("notes.txt", root.path().join(ours("link") + ".txt")).unwrap();
    let path = spill(root.path(), 10, DAY).keep("zero", "b", "1", "x").unwrap();
    let mut left = vec![ours("folder") + ".txt", "notes.txt".to_owned()];
    if cfg!(unix) {
        left.insert(1, ours("link") + ".txt");
    }
    left.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    assert_eq!(names(root.path()), left);
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_not_private_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let root = tempfile::tempdir().unwrap();
    let (open, link, file) = (root.path().join("open"), root.path().join("link"), root.path().join("file"));
    let real = root.path().join("real");
    for (dir, mode) in [(&open, 0o770), (&real, 0o700)] {
        fs::create_dir(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink(&real, &link).unwrap();
    fs::write(&file, "").unwrap();
    let check = |dir: &Path, why: &str| {
        let error = spill(dir, 100, DAY).keep("a", "b", "1", "secret text").unwrap_err();
        assert!(matches!(error, SpillError::Folder { .. }), "{error:?}");
        let words = words(error);
        assert!(words.contains("results cannot be kept in /") && words.contains(why), "{words}");
        assert!(!words.contains("secret text"), "{words}");
    };
    check(&open, "others may write to it");
    check(&link, "it is a link");
    check(&link.join(""), "it is a link");
    check(&link.join("."), "it is a link");
    check(&file, "it is not a folder");
    check(&file.join("below"), "ot a directory");
    check(Path::new("/proc/toolgate"), "");
    assert_eq!(names(&real), [""; 0]);
    // Only root can give a folder away, and a read-only folder refuses everybody but root.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&real, Some(12345), None).unwrap();
        check(&real, "belongs to user 12345");
        eprintln!("skipped: a read-only folder, since root may write everywhere");
    } else {
        fs::set_permissions(&real, fs::Permissions::from_mode(0o500)).unwrap();
        check(&real, "denied");
        eprintln!("skipped: a folder of another user, since only root can make one");
    }
}

#[test]
fn a_text_that_cannot_be_written_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (part, taken) = (root.path().join("part"), root.path().join("taken"));
    fs::create_dir(&taken).unwrap();
    // It can be written but not renamed.
    write(&part, &taken, "text").unwrap_err();
    assert_eq!(names(root.path()), ["taken"]);
    // An existing file is not ours to overwrite or remove.
    fs::write(&part, "before").unwrap();
    assert_eq!(write(&part, &root.path().join("whole"), "text").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&part).unwrap(), "before");
}

#[test]
fn nothing_is_written_while_another_process_holds_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let spill = SpillStore { lock_timeout: Duration::ZERO, ..spill(root.path(), 100, DAY) };
    let held = folder::lock(root.path(), Duration::ZERO).unwrap();
    let error = spill.keep("a", "b", "1", "x").unwrap_err();
    assert!(matches!(error, SpillError::Busy { .. }), "{error:?}");
    assert_eq!(names(root.path()), [""; 0]);
    drop(held);
    spill.keep("a", "b", "1", "x").unwrap();
}

#[test]
fn many_writers_stay_within_the_bound_and_never_show_a_part() {
    let root = tempfile::tempdir().unwrap();
    let text = "x".repeat(1000);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (dir, text) = (root.path(), &text);
            scope.spawn(move || {
                // No clones, so that they wait at the lock file, as processes do.
                let spill = spill(dir, 3500, DAY);
                for _ in 0..50 {
                    spill.keep(&number.to_string(), "tool", "call", text).unwrap();
                    for name in names(dir).iter().filter(|name| name.ends_with(".txt")) {
                        // Another thread may have made room since.
                        let size = fs::metadata(dir.join(name)).map_or(1000, |found| found.len());
                        assert_eq!(size, 1000);
                    }
                }
            });
        }
    });
    assert_eq!(names(root.path()).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_goes_at_the_start_and_every_hour_though_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("results");
    let spill = spill(&folder, 1 << 20, DAY);
    let sweeper = tokio::spawn(spill.clone().sweep_regularly());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!folder.exists(), "a folder is created with its first text");
    let new = spill.keep("kube", "get_pods", "call-1", "new").unwrap();
    for _ in 0..2 {
        let old = spill.keep_at(SystemTime::now() - 2 * DAY, "kube", "get_pods", "old").unwrap();
        // Time passes for the task only.
        tokio::time::sleep(SWEEP_INTERVAL + Duration::from_secs(1)).await;
        let gone = async {
            while old.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(SWEEP_INTERVAL / 2, gone).await.expect("what is too old is removed");
        assert!(new.exists());
    }
    sweeper.abort();
}

#[test]
fn a_sweep_removes_what_is_too_old_or_too_many_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let spill = spill(dir.path(), 8, DAY);
    for (second, text) in [(0, "1234"), (2, "1234")] {
        spill.keep_at(at(second), "kube", "get_pods", text).unwrap();
    }
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    for (now, left) in [(at(10), 3), (at(0) + DAY + Duration::from_secs(1), 2), (at(0) + 2 * DAY, 1)] {
        spill.sweep_at(now).unwrap();
        assert_eq!(names(dir.path()).len(), left);
    }
}
