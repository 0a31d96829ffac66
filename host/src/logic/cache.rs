//! A cache of compiled components on disk, with which a start takes a millisecond instead of a third of a second.
//!
//! A cached file is machine code that runs as it is. Two things make that safe: only its owner can have written it (the
//! file and all folders above it are checked each time, and no link is followed), and a checksum at its end proves that
//! it is complete. The checksum only guards against accidents; the ownership check guards against attackers.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::private_files;
use crate::sha256::Sha256;

/// Loads the component from the cache, or compiles and stores it; a cache that cannot be used is only a warning.
pub(crate) fn load<E>(
    folder: &Path,
    engine: &Engine,
    digest: &str,
    compile: impl FnOnce() -> Result<Component, E>,
) -> Result<(Component, Option<String>), E> {
    let path = folder.join(format!("{}.{EXTENSION}", key(engine, digest)));
    let found = read(&path, engine);
    if let Ok(Some(component)) = found {
        return Ok((component, None));
    }
    let component = compile()?;
    let warning = found.and_then(|_| write(&path, &component)).err().map(|error| {
        format!("cannot cache compiled components in {}, so each start is slower: {error}", folder.display())
    });
    Ok((component, warning))
}

/// Returns a name that depends on the component, the engine's configuration and the version, which a compiled file must
/// match.
fn key(engine: &Engine, digest: &str) -> String {
    struct Sha256Hasher(Sha256);
    impl Hasher for Sha256Hasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut feed = Sha256Hasher(Sha256::new());
    digest.hash(&mut feed);
    engine.precompile_compatibility_hash().hash(&mut feed);
    env!("CARGO_PKG_VERSION").hash(&mut feed);
    feed.0.hex()
}

/// Loads the component from this file; `None` if there is no file, or it is not ours, incomplete, or of another engine.
fn read(path: &Path, engine: &Engine) -> io::Result<Option<Component>> {
    match path.parent().map(private_files::check_code_folder) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Some(Ok(())) => {}
        // The folder does not exist yet.
        _ => return Ok(None),
    }
    let Ok(file) = private_files::open(path) else { return Ok(None) };
    if !is_intact(file)? {
        return Ok(None);
    }
    #[allow(unsafe_code, reason = "the file is whole and ours: only this user could write it, and this module did")]
    let component = unsafe { Component::deserialize_file(engine, path) };
    // Marks the file as used, so that it is kept. If that fails, it may be compiled again some day.
    if component.is_ok() {
        let _ = File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    }
    Ok(component.ok())
}

/// Writes to a temporary file and renames it, so that no reader ever sees a part.
fn write(path: &Path, component: &Component) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    private_files::ensure_code_folder(folder)?;
    let image = component.serialize().map_err(|error| io::Error::other(error.to_string()))?;
    let mut seal = Checksum::default();
    seal.update(&image);
    let part = path.with_extension(part_extension());
    let written = private_files::create_file(&part).and_then(|mut file| {
        file.write_all(&image)?;
        file.write_all(&seal.finish())?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        // If removing fails, a later start cleans up.
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    sweep(folder);
    Ok(())
}

/// Removes all but the most recently used files, and old temporary files; errors are ignored, because the next start
/// tries again.
fn sweep(folder: &Path) {
    let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(modified) = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified()) else { continue };
        let extension = path.extension().unwrap_or_default();
        if extension == EXTENSION {
            kept.push((modified, path));
        } else if extension == PART && modified.elapsed().is_ok_and(|age| age > PART_AGE) {
            let _ = fs::remove_file(path);
        }
    }
    kept.sort_by(|one, other| other.cmp(one));
    for (_, path) in kept.iter().skip(KEPT) {
        let _ = fs::remove_file(path);
    }
}

/// Returns an extension that no other writer uses: no other thread, and no earlier process with the same id.
fn part_extension() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{count}-{now}.{PART}", std::process::id())
}

/// Reports whether the file ends with the checksum of its content.
fn is_intact(file: File) -> io::Result<bool> {
    let Some(length) = file.metadata()?.len().checked_sub(SEAL_BYTES as u64) else { return Ok(false) };
    let mut seal = Checksum::default();
    let mut image = file.take(length);
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    loop {
        match image.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
        // Whole buffers, so that words are split as the writer split them.
        if filled == buffer.len() {
            seal.update(&buffer);
            filled = 0;
        }
    }
    seal.update(&buffer[..filled]);
    let mut found = [0; SEAL_BYTES];
    image.into_inner().read_exact(&mut found)?;
    Ok(seal.finish() == found)
}

/// The length and a sum over words in four lanes for speed: SHA-256 would take longer than the rest of a start.
#[derive(Default)]
struct Checksum {
    length: u64,
    lanes: [u64; 4],
}

impl Checksum {
    fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        for block in blocks.iter().chain((!rest.is_empty()).then_some(&last)) {
            for (lane, word) in self.lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane = (lane.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
    }

    fn finish(&self) -> Vec<u8> {
        [self.length].iter().chain(&self.lanes).flat_map(|word| word.to_le_bytes()).collect()
    }
}

const EXTENSION: &str = "cwasm";
const PART: &str = "part";
const PART_AGE: Duration = Duration::from_secs(3600);
const KEPT: usize = 16;
const BLOCK: usize = 32;
const SEAL_BYTES: usize = 8 + BLOCK;

#[cfg(test)]
mod tests;
