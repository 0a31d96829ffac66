//! Standard input and output for Tokio.
//!
//! A client usually starts the gateway with pipes or sockets, which Tokio polls directly. Files and terminals cannot,
//! or must not, be polled, so a thread copies their bytes.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Opens standard input.
pub fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let (fd, kind) = copied(io::stdin().as_fd())?;
    Ok(match kind {
        FileType::Fifo => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        FileType::Socket => Box::new(watched(Socket::from(fd))?),
        _ => {
            let (ours, mut theirs) = Socket::pair()?;
            std::thread::spawn(move || copy(&mut io::stdin().lock(), &mut theirs));
            Box::new(watched(ours)?)
        }
    })
}

/// Opens standard output.
pub fn output() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let (fd, kind) = copied(io::stdout().as_fd())?;
    Ok(match kind {
        FileType::Fifo => Box::new(pipe::Sender::from_owned_fd(fd)?),
        FileType::Socket => Box::new(watched(Socket::from(fd))?),
        _ => {
            let (ours, mut theirs) = Socket::pair()?;
            std::thread::spawn(move || copy(&mut theirs, &mut io::stdout().lock()));
            Box::new(watched(ours)?)
        }
    })
}

fn copied(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, FileType)> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    Ok((fd.try_clone_to_owned()?, kind))
}

fn watched(socket: Socket) -> io::Result<UnixStream> {
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Copies bytes as they come, until either side ends.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

const BUFFER: usize = 64 * 1024;
