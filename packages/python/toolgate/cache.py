"""Compiled components on disk, so that only the first use waits for the compiler.

A cached file is machine code that runs as it is. It is loaded only if nobody but this user and root can have written it:
the file and every folder above it are checked each time, and no link of a user is followed. Its name has the digest of the
component, and its end a digest of its content.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import stat
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from wasmtime import Engine, WasmtimeError
from wasmtime import component as wasm

DIGEST_BYTES = hashlib.sha256().digest_size
MAX_KEPT = 16
UNFINISHED_SECONDS = 3600
SUFFIX, UNFINISHED = ".cwasm", ".part"
log = logging.getLogger("toolgate")


def load(engine: Engine, portable: bytes) -> wasm.Component:
    """Loads a component from the cache, or compiles and keeps it."""
    file = cached_file(portable)
    if file is None:
        return wasm.Component(engine, portable)
    try:
        code = read(file)
        if code is not None:
            return wasm.Component.deserialize(engine, code)
    except OSError as error:
        log.warning("compiled components in %s are not used, so each start is slower: %s", file.parent, error)
        return wasm.Component(engine, portable)
    except WasmtimeError:
        pass  # it was compiled with other settings or on another processor, so it is written again
    component = wasm.Component(engine, portable)
    try:
        write(file, bytes(component.serialize()))
    except OSError as error:
        log.warning("cannot keep compiled components in %s, so each start is slower: %s", file.parent, error)
    return component


def cached_file(portable: bytes) -> Path | None:
    """Returns where a component's machine code is kept; None if this user has no such place."""
    if os.name != "posix":
        return None
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not chosen.is_absolute():
        home = Path(os.environ.get("HOME", ""))
        if not home.is_absolute():
            return None
        chosen = home / ("Library/Caches" if platform.system() == "Darwin" else ".cache")
    name = hashlib.sha256(portable).hexdigest()
    about = f"{name} {version('wasmtime')} {platform.system()} {platform.machine()}"
    return chosen / "toolgate" / "python" / (hashlib.sha256(about.encode()).hexdigest() + SUFFIX)


def read(file: Path) -> bytes | None:
    """Returns the machine code in a file that only this user can have written; None if there is none, or not all of it.

    Raises OSError if others can change the folder.
    """
    try:
        check_folder(file.parent)
        # Without blocking, since a pipe without a writer would be waited for; a link is an error.
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(opened, "rb") as stream:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise PermissionError(f"{file} is not a regular file with one name")
        check(file, found)
        content = stream.read()
    code, seal = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == seal else None


def write(file: Path, code: bytes) -> None:
    """Writes a new file for this user alone and renames it, so that no reader sees a part."""
    there = file.parent
    while not os.path.lexists(there):
        there = there.parent
    check_folder(there, is_ours=False)
    os.makedirs(file.parent, mode=0o700, exist_ok=True)
    check_folder(file.parent)
    number, part = tempfile.mkstemp(dir=file.parent, suffix=UNFINISHED)  # with the mode 600
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(code)
            stream.write(hashlib.sha256(code).digest())
            stream.flush()
            os.fsync(number)
        os.replace(part, file)
    except OSError:
        os.unlink(part)
        raise
    sweep(file.parent)


def sweep(folder: Path) -> None:
    """Removes all but the newest files, and what was never finished."""
    kept = []
    for file in folder.iterdir():
        try:
            changed = file.lstat().st_mtime
            if file.suffix == SUFFIX:
                kept.append((changed, file))
            elif file.suffix == UNFINISHED and time.time() - changed > UNFINISHED_SECONDS:
                file.unlink()
        except OSError:
            continue  # another process removes the same
    for _, file in sorted(kept, reverse=True)[MAX_KEPT:]:
        file.unlink(missing_ok=True)


def check_folder(folder: Path, is_ours: bool = True) -> None:
    """Raises OSError if others than root and this user can replace what is in a folder, or redirect the way to it."""
    for place in [folder, *folder.parents]:
        found = os.lstat(place)
        if stat.S_ISLNK(found.st_mode) and (found.st_uid != 0 or os.geteuid() == 0 and place.parent != Path("/")):
            raise PermissionError(f"{place} is a link, and links are not followed here")
    real = Path(os.path.realpath(folder))
    for place in real.parents:
        found = os.stat(place)
        if not found.st_mode & stat.S_ISVTX:  # in a sticky folder, nobody replaces the files of others
            check(place, found)
        elif found.st_uid not in (0, os.geteuid()):
            raise PermissionError(f"{place} belongs to user {found.st_uid}")
    found = os.stat(real)
    check(real, found)
    if is_ours and found.st_uid != os.geteuid():
        raise PermissionError(f"{real} belongs to user {found.st_uid}")


def check(place: Path, found: os.stat_result) -> None:
    """Raises OSError if others than root and this user can change a file or a folder."""
    if found.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{place} belongs to user {found.st_uid}")
    if found.st_mode & stat.S_IWOTH:
        raise PermissionError(f"{place} may be written by all others; run `chmod o-w {place}`")
    if found.st_mode & stat.S_IWGRP and not is_alone_in(found.st_gid):
        raise PermissionError(f"{place} may be written by group {found.st_gid}; run `chmod g-w {place}`")


def is_alone_in(group: int) -> bool:
    """Reports whether a group is this user's own: the files of this machine know it, and nobody else in it."""
    try:
        users = [line.split(":") for line in Path("/etc/passwd").read_text(errors="replace").splitlines()]
        groups = [line.split(":") for line in Path("/etc/group").read_text(errors="replace").splitlines()]
    except OSError:
        return False
    in_group = [user for user in users if len(user) > 3 and user[3] == str(group)]
    names = {user[0] for user in in_group if user[2] == str(os.geteuid())}
    listed = [entry[3].split(",") for entry in groups if len(entry) > 3 and entry[2] == str(group)]
    is_known = bool(names) and bool(listed)
    return is_known and {user[0] for user in in_group} <= names and {name for line in listed for name in line if name} <= names
