//! Walks a path from the root down and checks each step.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::{ExposedPath, ExposureCause, LinkPolicy, OwnershipError, PathKind, groups, user};

/// Checks each folder and link on the way, and finally the file or folder that the path points to.
pub(super) fn judge(path: &Path, links: LinkPolicy) -> Result<(), OwnershipError> {
    let mut here = PathBuf::from("/");
    let mut at = fs::symlink_metadata(&here)?;
    judge_metadata(&here, &at)?;
    let mut ahead = steps(&std::path::absolute(path)?);
    let mut followed = 0;
    while let Some(step) = ahead.pop() {
        match step {
            PathStep::Root => here = PathBuf::from("/"),
            // `here` contains no link, so its parent is also the parent that the system would use.
            PathStep::Up => drop(here.pop()),
            PathStep::Into(name) => {
                let next = here.join(name);
                let found = fs::symlink_metadata(&next)?;
                judge_metadata(&next, &found)?;
                if !found.is_symlink() {
                    (here, at) = (next, found);
                    continue;
                }
                if links == LinkPolicy::System && !is_of_system(&here, &at, &found) {
                    return Err(exposure_error(&next, PathKind::Link, ExposureCause::IsLink));
                }
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(io::Error::other(format!("{}: too many links", path.display())).into());
                }
                ahead.extend(steps(&fs::read_link(&next)?));
                continue;
            }
        }
        at = fs::symlink_metadata(&here)?;
    }
    Ok(())
}

/// Checks one file, folder or link by its owner and mode.
pub(super) fn judge_metadata(path: &Path, found: &Metadata) -> Result<(), OwnershipError> {
    let kind = match () {
        () if found.is_symlink() => PathKind::Link,
        () if found.is_dir() => PathKind::Folder,
        () => PathKind::File,
    };
    if found.uid() != 0 && found.uid() != user() {
        return Err(exposure_error(path, kind, ExposureCause::Owner(found.uid())));
    }
    let sticky = kind == PathKind::Folder && found.mode() & STICKY != 0;
    // The mode of a link is meaningless.
    if kind == PathKind::Link || sticky {
        return Ok(());
    }
    let group = (found.mode() & GROUP_WRITES != 0).then(|| found.gid());
    let group = group.filter(|group| !groups::is_private(*group) || has_access_list(path));
    let others = found.mode() & OTHERS_WRITE != 0;
    match (group, others) {
        (None, false) => Ok(()),
        // Kubernetes mounts a ConfigMap like this. Only a folder passes: the files in it are judged by themselves, since
        // others may be able to write to the same file system through another mount.
        _ if kind == PathKind::Folder && is_read_only(path) => Ok(()),
        (group, others) => Err(exposure_error(path, kind, ExposureCause::Writable { group, others })),
    }
}

/// Reports whether the file system of a path is mounted read-only.
fn is_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|mount| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Reports whether a link in this folder is one of the system's.
fn is_of_system(folder: &Path, at: &Metadata, link: &Metadata) -> bool {
    let only_root = at.uid() == 0 && at.mode() & (GROUP_WRITES | OTHERS_WRITE) == 0;
    link.uid() == 0 && only_root && (user() != 0 || folder == Path::new("/"))
}

/// Reports whether the path has an ACL; then the group bits are the most rights that any listed user has.
fn has_access_list(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0_u8; 0][..]).is_ok_and(|bytes| bytes > 0);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        false
    }
}

fn exposure_error(path: &Path, kind: PathKind, fault: ExposureCause) -> OwnershipError {
    OwnershipError::Exposed(ExposedPath { path: path.to_owned(), kind, fault })
}

enum PathStep {
    Root,
    Up,
    Into(OsString),
}

/// Returns the steps of a path in reverse order.
fn steps(path: &Path) -> Vec<PathStep> {
    let step = |component: Component<'_>| match component {
        Component::RootDir | Component::Prefix(_) => Some(PathStep::Root),
        Component::CurDir => None,
        Component::ParentDir => Some(PathStep::Up),
        Component::Normal(name) => Some(PathStep::Into(name.to_owned())),
    };
    let mut steps: Vec<_> = path.components().filter_map(step).collect();
    steps.reverse();
    steps
}

const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// How many symbolic links a path may have; Linux has this limit too.
const MAX_LINKS: usize = 40;
