//! The network of one host, which can be cut or made deaf, and behind which brokers can look older than they are.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use hostel_mesh::link::dial::{BoxStream, BrokerUrl, Dial, Dialling, NetDial};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What brokers can do since they know whose ids messages have.
const FEATURE: &[u8] = b"message_origin";

/// A network of one host that can be cut, or made deaf: what is sent arrives, what comes back does not.
#[derive(Clone)]
pub struct Net {
    dial: NetDial,
    cut: Arc<AtomicBool>,
    deaf: Arc<AtomicBool>,
    /// Brokers that are reached from now on do not say that they know `message_origin`.
    old: Arc<AtomicBool>,
    /// Streams made before this are broken.
    age: Arc<AtomicU64>,
    wake: Arc<tokio::sync::Notify>,
}

impl Net {
    pub fn new() -> Self {
        Self {
            dial: NetDial::new(None).unwrap(),
            cut: Arc::default(),
            deaf: Arc::default(),
            old: Arc::default(),
            age: Arc::default(),
            wake: Arc::default(),
        }
    }

    /// Nothing goes any more, and nothing that stood stands.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.break_all();
    }

    /// What stood is broken; new connections can be made.
    pub fn break_all(&self) {
        self.age.fetch_add(1, Ordering::SeqCst);
        self.deaf.store(false, Ordering::SeqCst);
        self.wake.notify_waiters();
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }

    /// Whether brokers that are reached from now on look like those from before `message_origin`.
    pub fn set_old(&self, old: bool) {
        self.old.store(old, Ordering::SeqCst);
    }

    pub fn deafen(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }
}

impl Dial for Net {
    fn dial<'a>(&'a self, url: &'a BrokerUrl) -> Dialling<'a> {
        Box::pin(async move {
            if self.cut.load(Ordering::SeqCst) {
                return Err(std::io::Error::other("cut"));
            }
            let inner = self.dial.dial(url).await?;
            let (net, wake) = (self.clone(), Arc::clone(&self.wake));
            let born = self.age.load(Ordering::SeqCst);
            let broken = Box::pin(async move {
                loop {
                    let notified = wake.notified();
                    if net.age.load(Ordering::SeqCst) != born {
                        return;
                    }
                    notified.await;
                }
            });
            let matched = self.old.load(Ordering::SeqCst).then_some(0);
            Ok(Box::new(Wire { inner, net: self.clone(), born, broken, matched }) as BoxStream)
        })
    }
}

struct Wire {
    inner: BoxStream,
    net: Net,
    born: u64,
    broken: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// How much of the feature's name has come, where it is not to be known.
    matched: Option<usize>,
}

impl Wire {
    /// Spells the feature's name so that nobody knows it, wherever the stream was cut into pieces.
    fn misspell(&mut self, bytes: &mut [u8]) {
        let Some(matched) = &mut self.matched else { return };
        for byte in bytes {
            // Its first letter is there only once: what does not go on can only begin again.
            *matched = if *byte == FEATURE[*matched] { *matched + 1 } else { usize::from(*byte == FEATURE[0]) };
            if *matched == FEATURE.len() {
                *byte = b'_';
                *matched = 0;
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.net.age.load(Ordering::SeqCst) != self.born || self.broken.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        if self.net.deaf.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if polled.is_ready() && self.net.deaf.load(Ordering::SeqCst) {
            buf.set_filled(before);
            return Poll::Pending;
        }
        self.misspell(&mut buf.filled_mut()[before..]);
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        if self.net.age.load(Ordering::SeqCst) != self.born {
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
