//! One JSON request to a broker, and its answer.
//!
//! Invariant: bounded in time and bytes. A request is made again when the connection fails before an answer came:
//! everything that is asked here may be asked twice.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hostel_wire::Clock;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HOST, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use zeroize::Zeroizing;

use super::EnrolError;
use crate::link::dial::{BrokerUrl, Dial};

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a request is made.
const ATTEMPTS: u32 = 3;

/// Clocks that differ less than this are right.
const SKEW_MS: i64 = 30_000;

/// The longest answer that is read.
const LONGEST: usize = 1024 * 1024;

/// What is asked.
pub(super) struct Call<'a> {
    pub(super) path: &'a str,
    pub(super) token: Option<&'a str>,
    /// Signed for a moment, in milliseconds since 1970.
    pub(super) body: &'a (dyn Fn(u64) -> Value + Send + Sync),
}

/// An answer, before it is judged.
struct Answer {
    status: u16,
    /// The broker's clock, in milliseconds since 1970.
    date_ms: Option<u64>,
    body: Bytes,
}

pub(super) async fn post(
    dial: &dyn Dial,
    url: &BrokerUrl,
    clock: &Clock,
    call: &Call<'_>,
) -> Result<Value, EnrolError> {
    let mut attempt = 1;
    let mut ahead_ms = 0;
    loop {
        let now_ms = clock.now_ms();
        let body = (call.body)(now_ms.saturating_add_signed(ahead_ms));
        let outcome = match tokio::time::timeout(PATIENCE, once(dial, url, call, &body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 30 s")),
        };
        match outcome {
            Ok(answer) => {
                let judged = judge(&answer);
                let skew = answer.date_ms.map_or(0, |date| date.cast_signed() - now_ms.cast_signed());
                // A clock that is wrong here should not keep anybody out: the broker has said what time it is.
                if ahead_ms == 0 && is_about_time(&judged) && skew.abs() > SKEW_MS {
                    ahead_ms = skew;
                    continue;
                }
                return judged;
            }
            Err(source) if attempt >= ATTEMPTS || is_hopeless(&source) => {
                return Err(EnrolError::Unreachable { url: url.http_base(), source });
            }
            Err(_) => attempt += 1,
        }
    }
}

/// A broker that is not there, or that is another one, will be the same in a moment.
fn is_hopeless(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, InvalidData, InvalidInput};
    matches!(error.kind(), ConnectionRefused | InvalidData | InvalidInput)
}

fn is_about_time(judged: &Result<Value, EnrolError>) -> bool {
    matches!(judged, Err(EnrolError::Refused { code, .. }) if code == "timestamp_skew" || code == "bad_signature")
}

async fn once(dial: &dyn Dial, url: &BrokerUrl, call: &Call<'_>, body: &Value) -> io::Result<Answer> {
    let stream = dial.dial(&url.with_path(call.path)).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(call.path)
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("hostel/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = call.token {
        request = request.header(AUTHORIZATION, Zeroizing::new(format!("Bearer {token}")).as_str());
    }
    let request = request.body(Full::new(Bytes::from(body.to_string()))).map_err(io::Error::other)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let date_ms = answer.headers().get(DATE).and_then(|date| read_date(date.to_str().ok()?));
        let body = Limited::new(answer.into_body(), LONGEST).collect().await.map_err(io::Error::other)?;
        Ok(Answer { status, date_ms, body: body.to_bytes() })
    };
    tokio::pin!(answer, connection);
    // Both end here: no task stays behind.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(io::Error::other(error)),
        },
    }
}

/// The time in a `Date` header.
pub(crate) fn read_date(text: &str) -> Option<u64> {
    let time = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

fn judge(answer: &Answer) -> Result<Value, EnrolError> {
    let status = answer.status;
    let answer = serde_json::from_slice::<Value>(&answer.body);
    if (200..300).contains(&status) {
        let answer = answer.map_err(|error| EnrolError::Answer(error.to_string()))?;
        return if answer.is_object() { Ok(answer) } else { Err(EnrolError::Answer("it is not an object".into())) };
    }
    let answer = answer.unwrap_or_default();
    let word = |name: &str| {
        let text = answer[name].as_str().unwrap_or_default();
        text.chars().filter(|c| !c.is_control()).take(300).collect::<String>()
    };
    let code = match word("error") {
        empty if empty.is_empty() => format!("http_{status}"),
        code => code,
    };
    let detail = match word("detail") {
        empty if empty.is_empty() => explain(&code).into(),
        detail => detail,
    };
    // Busy, or not now: the same request may work later.
    let permanent = status < 500 && status != 429 && status != 408;
    Err(EnrolError::Refused { code, detail, permanent })
}

/// What the contract's words mean.
fn explain(code: &str) -> &'static str {
    match code {
        "mesh_not_found" => "it does not know this mesh",
        "mesh_missing_owner_key" => "the mesh has no owner key",
        "invite_not_found" => "it does not know this invite",
        "invite_expired" => "the invite has expired",
        "invite_exhausted" => "the invite has been used up",
        "invite_revoked" => "the invite was revoked",
        "invite_bad_signature" => "the invite's signature is not good",
        "invite_mesh_mismatch" => "the invite belongs to another mesh",
        "invite_owner_mismatch" => "the invite is not signed by the mesh's owner",
        "member_insert_failed" => "it could not add the member",
        "unauthorized" | "http_401" => "making a mesh there needs the broker's admin token",
        "http_404" => "it does not know this request: it may be older than this program",
        _ => "",
    }
}
