//! Taking connections from a listener.

use std::sync::Arc;
use std::time::Duration;

use hostel_peer::accept::{self, Admits, Arrival, Gate, Notice, Place, StrangerLimits, WhenFull};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{Broker, PeerInfo, http};
use crate::engine::Engine;

/// Connections that have not said hello: of all together, and of one user or address. Many members may share an address.
const STRANGERS: StrangerLimits = StrangerLimits { total: 256, per_source: 128, time: Duration::ZERO };

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
        let gate = self.gate();
        let mut stopping = self.stopping();
        let ended = async {
            tokio::select! {
                () = stop => {}
                () = stopping.wait() => {}
            }
        };
        let serve = |arrival| take(Arc::clone(self), arrival, tls.clone());
        let ((), mut open) = accept::serve_each(&listener, &gate, ended, serve).await;
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
        http::serve(self, stream, peer, &Place::outside()).await;
    }

    /// Whoever has neither said hello nor signed a request is a stranger. All their waits are bounded elsewhere; here it is
    /// how many they are, so that no address keeps the members out.
    fn gate(self: &Arc<Self>) -> Gate {
        let strangers = StrangerLimits { time: self.settings.limits.http, ..STRANGERS };
        let (counting, noting) = (Arc::clone(self), Arc::clone(self));
        Gate::with_places(Admits::Everybody, Arc::clone(&self.places), WhenFull::Close)
            .strangers(strangers)
            .on_turned_away(move |_, _| counting.metrics.rejected_hello("connections"))
            .on_notice(move |notice| match notice {
                Notice::TurnedAway { peer, reason, silenced } => {
                    let fields = json!({"peer": peer.to_string(), "reason": reason.to_string(), "silenced": silenced});
                    noting.alarm("too_many_connections", fields);
                }
                Notice::AcceptFailed(error) => noting.alarm("accept_failed", json!({"error": error.to_string()})),
                Notice::Panicked(error) => noting.alarm("connection_failed", json!({"error": error.to_string()})),
            })
    }
}

async fn take<E: Engine>(broker: Arc<Broker<E>>, arrival: Arrival<TcpStream>, tls: Option<TlsAcceptor>) {
    let Arrival { stream, peer, place: Some(place) } = arrival else { return };
    // Small frames are answers somebody waits for.
    stream.set_nodelay(true).ok();
    let peer = PeerInfo { address: peer.ends().map(|ends| ends.theirs) };
    let Some(tls) = tls else { return http::serve(&broker, stream, peer, &place).await };
    let shaken = tokio::time::timeout(broker.settings.limits.handshake, tls.accept(stream)).await;
    if let Ok(Ok(stream)) = shaken {
        http::serve(&broker, stream, peer, &place).await;
    }
}
