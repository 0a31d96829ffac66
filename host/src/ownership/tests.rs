//! Paths as other users of the machine could have prepared them. Only root can give a file to another user, so tests
//! that need this run only as root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

const SOMEBODY: u32 = 65_533;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn file(path: PathBuf) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "x").unwrap();
    set(&path, 0o644);
    path
}

/// Returns the path that another user can change, and why.
fn fault(path: &Path, links: LinkPolicy) -> Option<(PathBuf, ExposureCause)> {
    match judge(path, links) {
        Ok(()) => None,
        Err(OwnershipError::Exposed(exposed)) => Some((exposed.path, exposed.fault)),
        Err(other) => panic!("{}: {other}", path.display()),
    }
}

#[track_caller]
fn passes(path: &Path) {
    assert_eq!(fault(path, LinkPolicy::Own), None, "{}", path.display());
}

#[track_caller]
fn fails(path: &Path, at: &Path) -> String {
    let error = judge(path, LinkPolicy::Own).expect_err("somebody can change it");
    let OwnershipError::Exposed(exposed) = &error else { panic!("{error}") };
    assert_eq!(exposed.path, at);
    error.to_string()
}

#[test]
fn a_file_that_others_may_write_fails_and_the_error_says_how_to_mend_it() {
    let here = folder();
    let file = file(here.path().join("it's a/config.yaml"));
    passes(&file);
    set(&file, 0o646);
    let shown = file.display().to_string();
    let quoted = shown.replace('\'', r"'\''");
    assert_eq!(
        fails(&file, &file),
        format!("{shown} may be written by all others, who can change it; run `chmod o-w '{quoted}'`")
    );
    set(&file, 0o600);
    passes(&file);
}

#[test]
fn a_folder_above_that_others_may_write_fails_unless_it_is_sticky() {
    let here = folder();
    let file = file(here.path().join("a/b/config.yaml"));
    let above = here.path().join("a");
    set(&above, 0o777);
    let text = fails(&file, &above);
    assert!(text.contains("can replace what is in it") && text.contains("chmod "), "{text}");
    set(&above, 0o1777);
    passes(&file);
}

#[test]
fn links_of_the_users_own_are_followed_and_what_they_lead_to_is_judged() {
    // The layout of a Kubernetes secret: config.yaml -> ..data/config.yaml, ..data -> ..2026
    let here = folder();
    let real = file(here.path().join("..2026/config.yaml"));
    symlink("..2026", here.path().join("..data")).unwrap();
    symlink("..data/config.yaml", here.path().join("config.yaml")).unwrap();
    let linked = here.path().join("config.yaml");
    passes(&linked);
    passes(&here.path().join("..data/../..data/./config.yaml"));
    file(here.path().join("..2027/config.yaml"));
    fs::remove_file(here.path().join("..data")).unwrap();
    symlink(here.path().join("..2027"), here.path().join("..data")).unwrap();
    passes(&linked);
    set(&here.path().join("..2027"), 0o757);
    fails(&linked, &here.path().join("..2027"));
    assert!(real.exists());
}

#[test]
fn links_without_end_and_missing_files_are_errors_and_no_judgement() {
    let here = folder();
    let round = here.path().join("round");
    symlink("round", &round).unwrap();
    assert!(judge(&round, LinkPolicy::Own).unwrap_err().to_string().contains("too many links"));
    let missing = judge(&here.path().join("no/such"), LinkPolicy::Own).unwrap_err();
    assert_eq!(io::Error::from(missing).kind(), io::ErrorKind::NotFound);
}

#[test]
fn where_no_link_may_be_none_is_followed() {
    let here = folder();
    let real = here.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = here.path().join("link");
    symlink(&real, &link).unwrap();
    assert_eq!(fault(&real, LinkPolicy::System), None);
    for path in [link.clone(), link.join(".")] {
        assert_eq!(fault(&path, LinkPolicy::System), Some((link.clone(), ExposureCause::IsLink)));
    }
}

#[test]
fn what_belongs_to_another_user_fails_wherever_it_is_on_the_way() {
    if user() != 0 {
        eprintln!("not tried: only root can give a file away");
        return;
    }
    let here = folder();
    let file = file(here.path().join("a/config.yaml"));
    chown(&file, Some(SOMEBODY), None).unwrap();
    let text = fails(&file, &file);
    assert!(text.contains(&format!("belongs to user {SOMEBODY}")) && text.contains("chown 0 "), "{text}");
    chown(&file, Some(0), None).unwrap();
    let above = here.path().join("a");
    // The owner of a folder may remove what is in it, sticky or not.
    set(&above, 0o1777);
    chown(&above, Some(SOMEBODY), None).unwrap();
    fails(&file, &above);
    let link = here.path().join("link");
    let real = self::file(here.path().join("real"));
    symlink(&real, &link).unwrap();
    passes(&link);
    lchown(&link, Some(SOMEBODY), None).unwrap();
    let text = fails(&link, &link);
    assert!(text.contains("chown -h 0 "), "{text}");
}

#[test]
fn a_group_of_more_members_than_the_user_fails() {
    let here = folder();
    let file = file(here.path().join("config.yaml"));
    set(&file, 0o664);
    if user() == 0 {
        chown(&file, None, Some(SOMEBODY)).unwrap();
        let text = fails(&file, &file);
        assert!(text.contains(&format!("group {SOMEBODY}")) && text.contains("chmod g-w "), "{text}");
    }
    set(&file, 0o644);
    passes(&file);
}

#[test]
fn what_was_opened_for_us_is_known_by_its_name_alone() {
    for name in ["/dev/stdin", "/dev/fd/3", "/proc/self/fd/63"] {
        assert!(is_inherited_fd(Path::new(name)), "{name}");
    }
    for name in ["/dev/fd/../../tmp/x", "/dev/stdin/x", "/dev/fd", "/tmp/dev/stdin", "stdin"] {
        assert!(!is_inherited_fd(Path::new(name)), "{name}");
    }
}

#[test]
fn nothing_but_a_regular_file_is_opened_and_nothing_is_waited_for() {
    let folder = folder();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("link");
    symlink(&pipe, &link).unwrap();
    for path in [&*pipe, &*link, &*socket, folder.path(), Path::new("/dev/zero")] {
        let error = read(path).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::NotFound, "{}: {error}", path.display());
    }
    assert_eq!(read(&pipe).unwrap_err().to_string(), "not a regular file");
    assert_eq!(read(&file(folder.path().join("file"))).unwrap(), b"x");
}
