//! What the MCP conformance suite talks to: a server with the tools, prompts and resources the suite asks for, served by
//! the door's own HTTP stack; and a front that shows the token, which the suite cannot.
//!
//! `mcp_fixture everything` serves the former behind the latter. `mcp_fixture front ADDRESS TOKEN-FILE` is a front for
//! the MCP door of a house. Both print the URL to use, and end when their standard input does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)] // test code

mod data;
mod everything;
mod front;

use std::net::SocketAddr;

use hostel_doors::claustrum::Level;
use hostel_doors::claustrum::Log;
use hostel_doors::claustrum::Secret;
use hostel_doors::mcp;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

/// The token of the server that is ours alone.
const TOKEN: &str = "conformance";

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let front = TcpListener::bind("127.0.0.1:0").await.expect("a port for the front");
    let address = front.local_addr().unwrap();
    let (upstream, token) = match words.as_slice() {
        ["everything"] => (serve().await, TOKEN.to_owned()),
        ["front", upstream, token] => {
            let token = std::fs::read_to_string(token).expect("the token's file");
            (upstream.parse().expect("an address"), token.trim().to_owned())
        }
        _ => panic!("usage: mcp_fixture everything | front ADDRESS TOKEN-FILE"),
    };
    println!("http://127.0.0.1:{}/mcp", address.port());
    tokio::spawn(front::serve(front, upstream, token));
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await.ok();
}

async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port for the server");
    let address = listener.local_addr().unwrap();
    let settings = mcp::HttpSettings {
        token: Secret::new(TOKEN.as_bytes().to_vec()),
        limits: mcp::HttpLimits::default(),
        log: Log::new(Level::Error, std::io::sink()).expect("a log"),
    };
    tokio::spawn(mcp::serve_http(listener, everything::Everything, settings, std::future::pending()));
    address
}
