//! Tests that compiled code is never loaded from a folder that another user could have prepared.
//!
//! Each start without the cache compiles the component, which takes a while, so unit tests of the cache cover more
//! cases.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::shared::set;
use crate::place::{Place, Ran};

/// A start with this folder for compiled components.
fn start(folder: &Path, more: &[&str]) -> Ran {
    let place = Place::new().set("TOOLGATE_CACHE_DIR", folder.to_str().unwrap());
    place.feed(&[&["eval"], more].concat(), "{\"op\":\"normalize\",\"name\":\"a__b\"}\n").ends(0).prints("a.b")
}

/// A folder of ours with compiled code in it.
fn filled(place: &Place) -> PathBuf {
    let folder = place.path("home/caches/toolgate");
    fs::create_dir_all(&folder).unwrap();
    // What all tests share is compiled once.
    place.feed(&["eval"], "").ends(0);
    for file in fs::read_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")).unwrap().flatten() {
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    folder
}

#[test]
fn a_link_to_a_folder_of_compiled_code_is_not_followed() {
    let place = Place::new();
    let folder = filled(&place);
    let link = place.path("home/link");
    symlink(&folder, &link).unwrap();
    start(&link, &[]).says("is a link, and links are not followed here");
    assert_eq!(start(&folder, &[]).stderr, "");
}

#[test]
fn each_folder_down_to_compiled_code_is_checked_whatever_is_allowed() {
    let place = Place::new();
    let folder = filled(&place);
    set(&place.path("home/caches"), 0o757);
    let chmod = format!("chmod o-w {}`", place.path("home/caches").display());
    start(&folder, &["--allow-shared-files"]).says(&chmod);
    set(&place.path("home/caches"), 0o755);
    assert_eq!(start(&folder, &[]).stderr, "");
}
