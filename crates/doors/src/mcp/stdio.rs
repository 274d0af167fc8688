//! Serving one client on a pair of streams, usually the process's own.
//!
//! Invariant: it ends when the client's side is closed or `stop` comes; what is still being worked on then is cancelled,
//! which withdraws it. A line longer than the limit is dropped and answered with an error, never held in memory.

use rmcp::ServerHandler;
use rmcp::service::ServerInitializeError;
use rmcp::service::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use thiserror::Error;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;

/// The longest line that is read.
const LINE: usize = 16 << 20;

/// Why a client was never served.
#[derive(Debug, Error)]
pub enum NotServed {
    /// It came and went without a word.
    #[error("the client left before it introduced itself")]
    Left,
    /// It does not speak the protocol.
    #[error("{0}")]
    NoClient(String),
}

/// Serves a client to its end.
///
/// # Errors
/// When it never began.
pub async fn serve_stdio<S, R, W>(
    server: S,
    reader: R,
    writer: W,
    stop: impl Future<Output = ()>,
) -> Result<(), NotServed>
where
    S: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::new_server(reader, writer).with_max_line_length(LINE);
    let running = match server.serve(transport).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Err(NotServed::Left);
        }
        Err(error) => return Err(NotServed::NoClient(error.to_string())),
    };
    let stopped = running.cancellation_token();
    let mut waiting = std::pin::pin!(running.waiting());
    tokio::select! {
        _ = &mut waiting => {}
        () = stop => {
            stopped.cancel();
            drop(waiting.await);
        }
    }
    Ok(())
}
