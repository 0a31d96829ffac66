//! Finds the process that listens on a port, to name it when the port is taken.

use std::fs;
use std::net::SocketAddr;

/// Says who listens on a port, or how to find that out.
pub(super) fn describe(address: SocketAddr) -> String {
    match find(address.port()) {
        Some((pid, name)) => format!("{address} is in use by {name:?} (process {pid})"),
        None if cfg!(target_os = "macos") => {
            format!("{address} is in use; `lsof -nP -iTCP:{} -sTCP:LISTEN` shows by whom", address.port())
        }
        None => format!("{address} is in use; `ss -ltnp 'sport = :{}'`, as root, shows by whom", address.port()),
    }
}

/// Returns the process that listens on a port, as far as Linux lets this user see it.
fn find(port: u16) -> Option<(u32, String)> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|table| listeners(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes of others cannot be read.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let mut targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        if targets.any(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str())) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim_end().to_owned()));
        }
    }
    None
}

/// Returns the inodes of the sockets in a table of the kernel that listen on a port.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port) && *fields.get(3)? == LISTENING;
        is_it.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// The state of a listening socket in the tables of the kernel.
const LISTENING: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_listens_on_the_port_is_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:2268 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0\n\
            1: 0100007F:2268 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100 0\n\
            2: 0100007F:2269 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0 100 0\n";
        assert_eq!(listeners(table, 0x2268), ["4711"]);
        assert!(listeners("", 1).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_finds_itself() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (pid, _) = find(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(pid, std::process::id());
    }
}
