//! Starts a program with three pipes in its own process group, and explains why one does not start.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::Path;

use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::group::ProcessGroup;
use super::watchdog;
use crate::failure::Failure;
use crate::transport::endpoint::Program;

/// A started process, and our ends of its pipes.
pub(super) struct SpawnedProcess {
    pub(super) child: Child,
    pub(super) group: ProcessGroup,
    /// Non-blocking.
    pub(super) stdin: PipeWriter,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

/// Starts the program; dropping the returned value kills its group.
pub(super) fn spawn(program: &Program) -> Result<SpawnedProcess, Failure> {
    try_spawn(program).map_err(|error| {
        let why = explain(program, &error);
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::InvalidInput
            | ErrorKind::ArgumentListTooLong => Failure::NoProgram(why),
            // There may be too many processes or files right now.
            _ => Failure::Connect(why),
        }
    })
}

fn try_spawn(program: &Program) -> io::Result<SpawnedProcess> {
    if program.command.is_empty() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the command is empty"));
    }
    // We create the pipes, because tokio would make the runtime watch our end of standard input even if nothing waits.
    let (their_stdin, stdin) = io::pipe()?;
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    rustix::io::ioctl_fionbio(&stdin, true)?;
    widen(&stdout);
    let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;

    let mut command = Command::new(&program.command);
    command.args(&program.args).env_clear().envs(&program.env).process_group(0);
    command.stdin(their_stdin).stdout(their_stdout).stderr(their_stderr);
    if let Some(folder) = &program.working_dir {
        command.current_dir(folder);
    }
    let entry = watchdog::reserve_entry();
    let register = entry.hook();
    // When the hook runs, the child leads its group: std calls setpgid before the hooks.
    #[allow(unsafe_code, reason = "the hook asks for its process id and writes to a pipe: no allocation, no lock")]
    unsafe {
        command.pre_exec(register);
    }
    let child = command.spawn()?;
    let pid = child.id().ok_or_else(|| io::Error::other("it ended at once"))?;
    Ok(SpawnedProcess { child, group: ProcessGroup::new(pid, entry), stdin, stdout, stderr })
}

/// Enlarges the pipe, so that the server need not stop every 64 KiB until somebody has read.
#[cfg(target_os = "linux")]
fn widen(pipe: &impl std::os::fd::AsFd) {
    // A user with many pipes may not be allowed more; the default size works too.
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
}

/// Does nothing: other systems choose the size themselves.
#[cfg(not(target_os = "linux"))]
fn widen(_pipe: &impl std::os::fd::AsFd) {}

#[cfg(target_os = "linux")]
const PIPE: usize = 256 * 1024;

/// Describes what went wrong and how to fix it, without arguments, which may be secrets.
fn explain(program: &Program, error: &io::Error) -> String {
    let command = &program.command;
    if let Some(folder) = &program.working_dir
        && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
        && let Some(why) = unusable(folder)
    {
        return format!("working_dir {:?} {why}", folder.display().to_string());
    }
    let by_path = command.contains('/');
    let found = if by_path { Some(in_folder(program, command)) } else { in_path(program) };
    let there = found.as_ref().is_some_and(|path| path.exists());
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory if there => {
            format!("{command:?} exists, but the interpreter in its first line does not; install that")
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory if command.contains(char::is_whitespace) => {
            format!("{command:?} was not found; if it holds arguments, move them to args")
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory if by_path => {
            format!("{command:?} was not found; check the path, or install it")
        }
        ErrorKind::NotFound if !program.env.contains_key("PATH") => {
            format!("{command:?} was not found, and its environment has no PATH; give its full path")
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            format!("{command:?} was not found in PATH; install it, or give its full path")
        }
        ErrorKind::PermissionDenied if found.as_ref().is_some_and(|path| path.is_dir()) => {
            format!("{command:?} is a folder; give the program in it")
        }
        ErrorKind::PermissionDenied => {
            format!("{command:?} is not executable; make it executable with `chmod +x`, or run its interpreter on it")
        }
        ErrorKind::ArgumentListTooLong => {
            format!("{command:?} has more arguments and environment variables than the system allows")
        }
        ErrorKind::InvalidInput if command.is_empty() => "the command is empty; name the program to run".to_owned(),
        _ => format!("{command:?} could not be started: {error}"),
    }
}

/// Returns why nothing can run in this folder.
fn unusable(folder: &Path) -> Option<&'static str> {
    match folder.metadata() {
        Ok(metadata) if !metadata.is_dir() => Some("is not a folder"),
        Ok(_) => folder.join(".").metadata().is_err().then_some("may not be entered; check its permissions"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some("may not be entered; check its permissions"),
        Err(_) => Some("does not exist; create it, or correct the path"),
    }
}

/// Returns the first file with the command's name in the program's PATH.
fn in_path(program: &Program) -> Option<std::path::PathBuf> {
    let path = program.env.get("PATH").map_or(OsStr::new("/bin:/usr/bin"), OsStr::new);
    std::env::split_paths(path)
        .map(|folder| in_folder(program, folder.join(&program.command)))
        .find(|file| file.is_file())
}

/// Resolves a path relative to the program's working directory.
fn in_folder(program: &Program, path: impl AsRef<Path>) -> std::path::PathBuf {
    program.working_dir.as_deref().unwrap_or(Path::new("")).join(path)
}
