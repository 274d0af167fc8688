//! The limit for a small request: an axum handler that parses the JSON body and answers with JSON of the same size.
//!
//! Nothing is looked up and nothing is checked beyond what the types demand.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::post;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Call {
    method: String,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    id: Option<Value>,
}

#[derive(Serialize)]
struct Answer {
    ok: bool,
    result: Health,
    id: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    memory: BTreeMap<&'static str, u64>,
    ok: bool,
    pid: u32,
    rust_version: &'static str,
    sessions: usize,
    sessions_by_status: BTreeMap<&'static str, usize>,
    uptime: u64,
    version: &'static str,
}

/// Answers until it is ended, on so many threads.
pub(crate) fn run(threads: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("binding a port")?;
        println!("{}", listener.local_addr()?.port());
        let started = Instant::now();
        let handler = move |body: Bytes| async move { answer(&body, started) };
        axum::serve(listener, Router::new().route("/rpc", post(handler))).await.context("serving")
    })
}

fn answer(body: &[u8], started: Instant) -> Response {
    let call: Call = match serde_json::from_slice(body) {
        Ok(call) => call,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    if call.method != "health.check" || call.params.is_some() {
        return StatusCode::NOT_FOUND.into_response();
    }
    let health = Health {
        memory: BTreeMap::from([("heapTotal", 12), ("heapUsed", 6), ("rss", 12)]),
        ok: true,
        pid: std::process::id(),
        rust_version: "0.2.21",
        sessions: 0,
        sessions_by_status: BTreeMap::new(),
        uptime: started.elapsed().as_secs(),
        version: "0.2.21",
    };
    match serde_json::to_vec(&Answer { ok: true, result: health, id: call.id }) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
