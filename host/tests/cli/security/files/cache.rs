//! Compiled code is run as it stands, so it is taken from nowhere that another user could have prepared.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;

use super::shared::{SOMEBODY, is_root, set};
use crate::place::{Place, Ran};

/// A start with this folder for compiled components.
fn start(folder: &Path) -> Ran {
    let place = Place::new().set("TOOLGATE_CACHE_DIR", folder.to_str().unwrap());
    place.feed(&["eval"], "{\"op\":\"normalize\",\"name\":\"a__b\"}\n").ends(0).prints("\"a\"")
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_link_to_a_folder_of_compiled_code_is_not_followed() {
    let place = Place::new();
    let real = place.path("home/real");
    fs::create_dir(&real).unwrap();
    set(&real, 0o700);
    let link = place.path("home/link");
    symlink(&real, &link).unwrap();
    let below = link.join("toolgate");
    for folder in [&link, &below] {
        start(folder).says("is a link, and none is followed here");
        assert_eq!(files(&real), 0, "nothing is written through it either");
    }
    let ran = start(&real);
    assert_eq!((ran.stderr.as_str(), files(&real)), ("", 1));
    start(&link).says("is a link");
    if is_root() {
        lchown(&link, Some(SOMEBODY), None).unwrap();
        start(&link).says("chown -h 0 ");
    }
}

#[test]
fn each_folder_down_to_compiled_code_is_checked() {
    let place = Place::new();
    let folder = place.path("home/caches/toolgate");
    assert_eq!(start(&folder).stderr, "");
    let above = place.path("home/caches");
    for checked in [&above, &folder] {
        set(checked, 0o757);
        start(&folder).says("chmod");
        // What runs code is not to be had by a flag either.
        let allowed = Place::new().set("TOOLGATE_CACHE_DIR", folder.to_str().unwrap());
        allowed.feed(&["eval", "--allow-shared-files"], "").ends(0).says("chmod");
        set(checked, 0o755);
        assert_eq!(start(&folder).stderr, "");
    }
    if is_root() {
        chown(&above, Some(SOMEBODY), None).unwrap();
        start(&folder).says("chown 0 ");
    }
}

#[test]
fn a_compiled_file_of_another_user_is_replaced_and_not_run() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let folder = place.path("home/toolgate");
    start(&folder);
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    chown(&file, Some(SOMEBODY), None).unwrap();
    start(&folder);
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&file).unwrap()), 0);
}
