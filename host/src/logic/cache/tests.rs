//! The cache with a component of eight bytes, so that compiling takes no time.

use super::*;

/// Performs one start; returns whether the component had to be compiled, and the warning.
fn start(folder: &Path) -> (bool, Option<String>) {
    start_of(folder, "digest")
}

/// Performs one start of another component; returns whether it had to be compiled, and the warning.
fn start_of(folder: &Path, digest: &str) -> (bool, Option<String>) {
    let engine = Engine::default();
    let mut compiled = false;
    let compile = || {
        compiled = true;
        Component::from_binary(&engine, b"\0asm\x0d\0\x01\0")
    };
    let (_, warning) = load(folder, &engine, digest, compile).expect("an empty component is a component");
    (compiled, warning)
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn the_first_start_compiles_and_the_second_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/toolgate");
    assert_eq!(start(&folder), (true, None));
    assert_eq!(start(&folder), (false, None));
}

#[test]
fn a_damaged_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    start(folder.path());
    let path = only_file(folder.path());
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut longer = whole.clone();
    longer.push(0);
    for damaged in [&flipped, &longer, &whole[..whole.len() / 3], b"", b"text"] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(start(folder.path()), (true, None));
        assert_eq!(start(folder.path()), (false, None));
    }
}

#[test]
fn a_sealed_file_that_is_no_component_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    start(folder.path());
    let mut seal = Checksum::default();
    seal.update(b"no machine code");
    fs::write(only_file(folder.path()), [&b"no machine code"[..], &seal.finish()].concat()).unwrap();
    assert_eq!(start(folder.path()), (true, None));
}

#[test]
fn one_that_is_used_stays_however_long_ago_it_was_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let age = |path: &Path, hours: u64| {
        let time = SystemTime::now() - Duration::from_secs(hours * 3600);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    assert_eq!(start(folder.path()), (true, None));
    age(&only_file(folder.path()), 2);
    assert_eq!(start(folder.path()), (false, None));
    for number in 0..2 * KEPT {
        let path = folder.path().join(format!("{number}.{EXTENSION}"));
        fs::write(&path, "").unwrap();
        age(&path, 1);
    }
    assert_eq!(start_of(folder.path(), "another"), (true, None));
    assert_eq!(start(folder.path()), (false, None));
}

#[test]
fn the_newest_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..2 * KEPT {
        fs::write(folder.path().join(format!("{number}.{EXTENSION}")), "").unwrap();
    }
    fs::write(folder.path().join("another file"), "").unwrap();
    assert_eq!(start(folder.path()), (true, None));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), KEPT + 1);
    assert_eq!(start(folder.path()), (false, None));
}

#[test]
fn a_folder_that_cannot_be_made_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let (compiled, warning) = start(&file.join("below"));
    assert!(compiled && warning.is_some());
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("toolgate");
        start(&folder);
        assert_eq!((mode(&folder), mode(&only_file(&folder))), (0o700, 0o600));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        start(folder.path());
        set(folder.path(), 0o777);
        let (compiled, warning) = start(folder.path());
        assert!(compiled && warning.as_ref().is_some_and(|text| text.contains("chmod")), "{warning:?}");
        set(folder.path(), 0o755);
        assert_eq!(start(folder.path()), (false, None));
    }

    #[test]
    fn a_folder_above_that_others_may_write_to_is_not_believed() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("caches/toolgate");
        assert_eq!(start(&folder), (true, None));
        set(&above.path().join("caches"), 0o757);
        let (compiled, warning) = start(&folder);
        assert!(compiled && warning.as_ref().is_some_and(|text| text.contains("chmod o-w")), "{warning:?}");
        set(&above.path().join("caches"), 0o1777);
        assert_eq!(start(&folder), (false, None), "where it is sticky, nobody can exchange the folder");
    }

    #[test]
    fn no_link_on_the_way_to_the_folder_is_followed() {
        let above = tempfile::tempdir().unwrap();
        let (real, link) = (above.path().join("real"), above.path().join("link"));
        assert_eq!(start(&real), (true, None));
        symlink(&real, &link).unwrap();
        for folder in [link.clone(), link.join("below"), link.join("../link")] {
            let (compiled, warning) = start(&folder);
            assert!(compiled && warning.as_ref().is_some_and(|text| text.contains("is a link")), "{warning:?}");
            assert_eq!(fs::read_dir(&real).unwrap().count(), 1, "nothing is written through it either");
        }
    }

    #[test]
    fn what_belongs_to_another_user_is_neither_read_nor_written() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tried: only root can give a file away");
            return;
        }
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("caches/toolgate");
        start(&folder);
        let file = only_file(&folder);
        std::os::unix::fs::chown(&file, Some(65_533), None).unwrap();
        assert_eq!(start(&folder), (true, None), "the file is replaced");
        std::os::unix::fs::chown(above.path().join("caches"), Some(65_533), None).unwrap();
        let (compiled, warning) = start(&folder);
        assert!(compiled && warning.as_ref().is_some_and(|text| text.contains("chown 0 ")), "{warning:?}");
    }

    #[test]
    fn a_file_that_others_may_write_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        start(folder.path());
        let path = only_file(folder.path());
        set(&path, 0o666);
        assert_eq!(start(folder.path()), (true, None));
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_link_is_replaced_and_what_it_points_to_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        start(folder.path());
        let path = only_file(folder.path());
        fs::remove_file(&path).unwrap();
        symlink(elsewhere.path(), &path).unwrap();
        assert_eq!(start(folder.path()), (true, None));
        assert_eq!(fs::read(elsewhere.path()).unwrap(), b"");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    }
}
