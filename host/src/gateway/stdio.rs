//! The door of standard input and output: one client, a message a line.

pub mod standard;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::client::{Client, House, Incoming, Outlet, Principal};

/// Serves the client at the other end until its input ends, or until `stop`.
///
/// All that was read by then is answered: requests may take as long as `grace`, and are cancelled then.
pub async fn serve(
    house: &dyn House,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()>,
    grace: Duration,
) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let outlet: Arc<dyn Outlet> = Arc::new(Lines(sender.clone()));
    let principal = Principal::local();
    let client = house.open(&principal, Arc::clone(&outlet)).map_err(std::io::Error::other)?;
    let mut writer = tokio::spawn(write(receiver, output));
    let mut running = JoinSet::new();
    let ended = read(&client, input, &outlet, &mut running, &mut writer, stop).await;
    client.end_news();
    if !writer.is_finished() && !finished(&mut running, grace).await {
        // Each gets an answer that says so.
        client.cancel();
        finished(&mut running, CLOSE).await;
    }
    running.shutdown().await;
    client.close().await;
    // Others may still hold a way to the client; what they say now comes too late.
    let _ = sender.send(None);
    if !writer.is_finished() && timeout(CLOSE, &mut writer).await.is_err() {
        writer.abort();
    }
    ended
}

/// Hands over messages as they come.
async fn read(
    client: &Arc<dyn Client>,
    input: impl AsyncRead + Unpin,
    outlet: &Arc<dyn Outlet>,
    running: &mut JoinSet<()>,
    writer: &mut JoinHandle<std::io::Result<()>>,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let mut lines = BufReader::with_capacity(READ, input);
    let mut stop = pin!(stop);
    let mut line = Vec::new();
    loop {
        line.clear();
        tokio::select! {
            read = lines.read_until(b'\n', &mut line) => if read? == 0 { return Ok(()) },
            // The client reads no more, so nothing that it asks could be answered.
            _ = &mut *writer => return Ok(()),
            () = &mut stop => return Ok(()),
        }
        while running.try_join_next().is_some() {}
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        if text.is_empty() {
            continue;
        }
        let (client, outlet) = (Arc::clone(client), Arc::clone(outlet));
        running.spawn(async move {
            let message = Incoming { text, headers: None, outlet: Arc::clone(&outlet) };
            if let Some(answer) = client.take(message).await {
                outlet.send(answer.text);
            }
        });
    }
}

/// Waits for all that runs, for at most so long; says whether all of it has ended.
async fn finished(running: &mut JoinSet<()>, limit: Duration) -> bool {
    timeout(limit, async { while running.join_next().await.is_some() {} }).await.is_ok()
}

/// Writes lines as they come, up to the last; what has come meanwhile is written at once.
async fn write(
    mut lines: mpsc::UnboundedReceiver<Option<String>>,
    mut output: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let mut open = true;
    while let (true, Some(Some(line))) = (open, lines.recv().await) {
        let mut batch = line.into_bytes();
        batch.push(b'\n');
        while let (true, Ok(line)) = (open, lines.try_recv()) {
            match line {
                Some(line) => {
                    batch.extend_from_slice(line.as_bytes());
                    batch.push(b'\n');
                }
                None => open = false,
            }
        }
        output.write_all(&batch).await?;
        output.flush().await?;
    }
    Ok(())
}

/// The way to the client; no line is the last.
struct Lines(mpsc::UnboundedSender<Option<String>>);

impl Outlet for Lines {
    fn send(&self, text: String) -> bool {
        self.0.send(Some(text)).is_ok()
    }
}

const READ: usize = 64 * 1024;
/// How long requests may take to be cancelled, and the client to read its last answers.
const CLOSE: Duration = Duration::from_secs(2);
