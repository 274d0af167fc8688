//! Downloads from a real HTTP server on the loopback interface.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Serves one answer to every request and returns the address.
async fn serve(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let Ok(byte) = connection.read_u8().await else {
                    break;
                };
                // Something else than a request, such as the start of an encrypted connection.
                request.push(byte);
                if !request[0].is_ascii_uppercase() {
                    break;
                }
            }
            connection.write_all(&answer).await.unwrap();
            // Leaving it open until the client has seen the end of the answer.
            drop(connection.read_u8().await);
        }
    });
    format!("http://user:secret@{address}/cli.zst")
}

fn http(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_download_is_installed_when_its_checksum_holds() {
    let place = Place::new();
    let blob = compressed(GOOD);
    let address = serve(http("200 OK", &blob)).await;
    let options = InstallOptions { cli_url: address.into(), ..place.options() };
    let text = format!("checksum mismatch: expected=, actual={}", checksum(&blob).to_ascii_lowercase());
    assert_eq!(error(options.clone()).await, text, "an empty checksum never holds");

    let options = InstallOptions { cli_checksum: checksum(&blob).into(), ..options };
    // A local blob wins, even one that can not be read.
    let both = InstallOptions { cli_zst: place.at("missing.zst").into(), ..options.clone() };
    assert!(error(both).await.starts_with("opening input: "));

    assert_eq!(facts(options).await.get("cliError"), None);
    assert_eq!(fs::read_to_string(place.cli()).unwrap(), GOOD);
    assert_eq!(place.names(), ["1.2.3"]);
}

#[tokio::test]
async fn a_failed_download_tells_why_and_never_the_address() {
    let place = Place::new();
    let from = |address: String| InstallOptions { cli_url: address.into(), ..place.options() };

    let address = serve(http("404 Not Found", b"no")).await;
    assert_eq!(error(from(address)).await, "download failed with status 404");
    let address = serve(http("204 No Content", b"")).await;
    assert_eq!(error(from(address)).await, "download failed with status 204");

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let text = error(from(format!("http://user:secret@{free}/x"))).await;
    assert!(text.starts_with("download failed: ") && text.contains("refused"), "{text}");
    assert!(!text.contains("secret") && !text.contains("http://"), "{text}");
    assert!(error(from("no address".into())).await.starts_with("download failed: "));

    let not_encrypted = serve(http("200 OK", b"")).await.replace("http://", "https://");
    assert!(error(from(not_encrypted)).await.starts_with("download failed: "));

    // An answer that ends too early, one that never ends, and one that is too long.
    let cut = http("200 OK", b"0123456789");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.write_all(&cut[..cut.len() - 5]).await.unwrap();
        connection.shutdown().await.unwrap();
        connection.read_to_end(&mut Vec::new()).await.unwrap();
    });
    assert!(error(from(address)).await.starts_with("download failed: "));
    serving.await.unwrap();

    let endless = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123".to_vec()).await;
    let mut options = from(endless);
    options.limits.download = Duration::from_millis(300);
    assert_eq!(error(options).await, "download failed: timed out after 0.3s");

    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let body =
            if head.starts_with('C') { "0".repeat(100) } else { format!("64\r\n{}\r\n0\r\n\r\n", "0".repeat(100)) };
        let mut options = from(serve(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").into_bytes()).await);
        options.limits.blob = 99;
        assert_eq!(error(options).await, "download failed: response exceeds 99 bytes", "{head}");
    }
    assert!(!place.at("cli").exists());
}
