//! The door of standard input and output: one client, a message a line.

pub mod standard;

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{House, Incoming, Outlet, Principal};

/// Serves the client at the other end until its input ends; calls that still run then are cancelled.
pub async fn serve(
    house: &dyn House,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let outlet: Arc<dyn Outlet> = Arc::new(Lines(sender.clone()));
    let principal = Principal::local();
    let client = house.open(&principal, Arc::clone(&outlet)).map_err(std::io::Error::other)?;
    drop(sender);
    let mut writer = tokio::spawn(write(receiver, output));
    let mut lines = BufReader::with_capacity(READ, input);
    let mut running = JoinSet::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        tokio::select! {
            read = lines.read_until(b'\n', &mut line) => if read? == 0 { break },
            // The client reads no more, so nothing that it asks could be answered.
            _ = &mut writer => break,
        }
        while running.try_join_next().is_some() {}
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        if text.is_empty() {
            continue;
        }
        let (client, outlet) = (Arc::clone(&client), Arc::clone(&outlet));
        running.spawn(async move {
            let message = Incoming { text, headers: None, outlet: Arc::clone(&outlet) };
            if let Some(answer) = client.take(message).await {
                outlet.send(answer.text);
            }
        });
    }
    running.shutdown().await;
    client.close().await;
    Ok(())
}

/// Writes lines as they come; what has come meanwhile is written at once.
async fn write(mut lines: mpsc::UnboundedReceiver<String>, mut output: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    while let Some(line) = lines.recv().await {
        let mut batch = line.into_bytes();
        batch.push(b'\n');
        while let Ok(line) = lines.try_recv() {
            batch.extend_from_slice(line.as_bytes());
            batch.push(b'\n');
        }
        output.write_all(&batch).await?;
        output.flush().await?;
    }
    Ok(())
}

/// The way to the client.
struct Lines(mpsc::UnboundedSender<String>);

impl Outlet for Lines {
    fn send(&self, text: String) -> bool {
        self.0.send(text).is_ok()
    }
}

const READ: usize = 64 * 1024;
