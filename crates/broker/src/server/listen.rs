//! Taking connections from a listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use hostel_tasks::SpawnBoxed as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Broker, PeerInfo, http};
use crate::engine::Engine;

/// The pause after a failure to accept.
const PAUSE: Duration = Duration::from_millis(50);

/// How long connections may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// Everybody has left in time.
    Quietly,
    /// Some had to be cut off.
    CutOff(usize),
}

impl<E: Engine> Broker<E> {
    /// Serves a listener until `stop` or until the broker is shut down; then connections are closed with 1001.
    pub async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        stop: impl Future<Output = ()> + Send,
    ) -> Served {
        let tls = tls.map(TlsAcceptor::from);
        let mut open = JoinSet::new();
        let mut stopping = self.stopping();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => match Arc::clone(&self.places).try_acquire_owned() {
                        Ok(place) => drop(open.spawn_boxed(take(Arc::clone(self), stream, address, tls.clone(), place))),
                        Err(_) => {
                            self.metrics.rejected_hello("connections");
                            self.alarm("too_many_connections", json!({"peer": address.to_string()}));
                        }
                    },
                    // Out of descriptors, most likely: those in use come back by themselves.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = open.join_next(), if !open.is_empty() => {}
                () = &mut stop => break,
                () = stopping.wait() => break,
            }
        }
        drop(listener);
        self.stop.send_replace(true);
        let rest = async { while open.join_next().await.is_some() {} };
        tokio::time::timeout(FAREWELL, rest).await.ok();
        let left = open.len();
        open.shutdown().await;
        if left == 0 { Served::Quietly } else { Served::CutOff(left) }
    }

    /// Serves one stream of any kind: HTTP, and WebSocket at `/ws`.
    pub async fn serve_connection<S>(self: &Arc<Self>, stream: S, peer: PeerInfo)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        http::serve(self, stream, peer).await;
    }
}

async fn take<E: Engine>(
    broker: Arc<Broker<E>>,
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    _place: OwnedSemaphorePermit,
) {
    // Small frames are answers somebody waits for.
    stream.set_nodelay(true).ok();
    let peer = PeerInfo { address: Some(address) };
    let Some(tls) = tls else { return broker.serve_connection(stream, peer).await };
    let shaken = tokio::time::timeout(broker.settings.limits.handshake, tls.accept(stream)).await;
    if let Ok(Ok(stream)) = shaken {
        broker.serve_connection(stream, peer).await;
    }
}
