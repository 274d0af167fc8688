//! A front that adds the token to every request and passes everything else on as it is, `Host` and `Origin` too.

use std::net::SocketAddr;

use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::net::TcpStream;

/// The longest head of a request.
const HEAD: usize = 64 << 10;

pub(super) async fn serve(listener: TcpListener, upstream: SocketAddr, token: String) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let token = token.clone();
        tokio::spawn(async move { pass(client, upstream, &token).await.ok() });
    }
}

/// One request: the connection closes behind it, so that no second head needs to be found.
async fn pass(mut client: TcpStream, upstream: SocketAddr, token: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if client.read_buf(&mut head).await? == 0 || head.len() > HEAD {
            return Ok(());
        }
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
    };
    let lines = String::from_utf8_lossy(&head[..end]).into_owned();
    let kept: Vec<&str> =
        lines.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("connection:")).collect();
    let mut server = TcpStream::connect(upstream).await?;
    let added = format!("{}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n", kept.join("\r\n"));
    server.write_all(added.as_bytes()).await?;
    server.write_all(&head[end + 4..]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
