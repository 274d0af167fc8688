//! The asking side of our own protocol.
//!
//! Invariant: a connection that was opened has been initialized; an answer is matched to its question by id. Nothing is said
//! to a process inside a house that has put its own socket into the daemon's place, and no passphrase to a process that may
//! be another program ([`hostel_peer::server`]).
//!
//! It does not reconnect: who must not lose anything knows best where to go on.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use hostel_peer::server;
use hostel_peer::server::ServerError;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::unix::OwnedWriteHalf;
use zeroize::Zeroize as _;

use super::line::Line;
use super::line::LineReader;
use super::protocol::Initialize;
use super::protocol::Initialized;
use super::protocol::PROTOCOL_VERSION;

/// The longest line of a daemon that is read. One event may be as long as the longest line of an agent that the daemon
/// reads (32 MiB unless the settings say otherwise), stand there under two names, and have much of it escaped.
const ANSWER_LIMIT: usize = 512 << 20;

/// Why a question got no result.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no daemon answers on `{}`: {source}", path.display())]
    Connect {
        /// The socket's path as people know it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Whoever listens there is not the daemon.
    #[error("`{}` is not served by the daemon of the house: {found}", path.display())]
    NotTheDaemon {
        /// The socket's path as people know it.
        path: PathBuf,
        /// What was found.
        found: ServerError,
    },
    /// Whoever listens there may be another program than the daemon, and was to be told a passphrase.
    #[error("the passphrase was not sent: {0}")]
    Doubtful(ServerError),
    /// The daemon went away in the middle.
    #[error("the daemon went away: {0}")]
    Lost(io::Error),
    /// The daemon refused.
    #[error("{message}")]
    Reply {
        /// One of `protocol::code`.
        code: i64,
        /// In the daemon's words.
        message: String,
    },
    /// What came back is not our protocol.
    #[error("the daemon's answer makes no sense: {0}")]
    Protocol(String),
}

impl ClientError {
    /// Whether a new connection may help.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, ClientError::Connect { .. } | ClientError::Lost(_))
    }

    /// The error code of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        match self {
            ClientError::Reply { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// Something the daemon said.
#[derive(Debug)]
pub enum Message {
    /// The answer to a question.
    Answer {
        /// The question's id.
        id: u64,
        /// What came of it.
        result: Result<Box<RawValue>, (i64, String)>,
    },
    /// Something nobody asked for at this moment.
    Notification {
        /// Its name.
        method: String,
        /// Its content.
        params: Box<RawValue>,
    },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: i64,
    message: String,
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

/// The half that asks.
#[derive(Debug)]
pub struct Questions {
    writer: OwnedWriteHalf,
    next_id: u64,
    line: Vec<u8>,
    /// Why the server may be another program than the daemon.
    doubt: Option<ServerError>,
}

/// How a passphrase begins in a question. In a text the quotation marks would be escaped.
const SECRETS: [&[u8]; 2] = [b"\"passphrase\":\"", b"\"old\":\""];

impl Questions {
    /// Sends a question and returns its id.
    ///
    /// # Errors
    /// `Lost` when the daemon is gone, `Protocol` when the parameters cannot be encoded, `Doubtful` when a passphrase is
    /// among them and the server may be another program.
    pub async fn send(&mut self, method: &str, params: &impl Serialize) -> Result<u64, ClientError> {
        let id = self.next_id;
        self.next_id += 1;
        self.line.clear();
        serde_json::to_writer(&mut self.line, &Request { jsonrpc: "2.0", id, method, params })
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        self.line.push(b'\n');
        let is_secret = SECRETS.iter().any(|secret| self.line.windows(secret.len()).any(|part| part == *secret));
        let sent = match &self.doubt {
            Some(doubt) if is_secret => Err(ClientError::Doubtful(doubt.clone())),
            _ => self.writer.write_all(&self.line).await.map_err(ClientError::Lost),
        };
        if is_secret {
            self.line.zeroize();
        }
        sent.map(|()| id)
    }
}

/// The half that hears.
#[derive(Debug)]
pub struct Messages {
    lines: LineReader<OwnedReadHalf>,
}

impl Messages {
    /// The next thing the daemon says. Giving up waiting loses nothing.
    ///
    /// # Errors
    /// `Lost` when the daemon is gone, `Protocol` when it talks nonsense.
    pub async fn next(&mut self) -> Result<Message, ClientError> {
        let range = match self.lines.next().await.map_err(ClientError::Lost)? {
            Line::Ready(range) => range,
            Line::Closed => return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into())),
            Line::TooLong => return Err(ClientError::Protocol("a line is too long".to_owned())),
        };
        let envelope: Envelope<'_> = serde_json::from_slice(self.lines.line(&range))
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        match envelope {
            Envelope { method: Some(method), params, .. } => Ok(Message::Notification {
                method,
                params: params.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned),
            }),
            Envelope { id: Some(id), error: Some(failure), .. } => {
                Ok(Message::Answer { id, result: Err((failure.code, failure.message)) })
            }
            Envelope { id: Some(id), result, .. } => Ok(Message::Answer {
                id,
                result: Ok(result.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned)),
            }),
            Envelope { error: Some(failure), .. } => {
                Err(ClientError::Reply { code: failure.code, message: failure.message })
            }
            Envelope { .. } => Err(ClientError::Protocol("neither answer nor notification".to_owned())),
        }
    }
}

/// A connection to a daemon, initialized.
#[derive(Debug)]
pub struct Client {
    questions: Questions,
    messages: Messages,
    server: Initialized,
}

impl Client {
    /// Connects to `dial` and introduces itself; `shown` is the path to name in an error.
    ///
    /// # Errors
    /// `Connect` when nobody listens, `NotTheDaemon` when somebody else does, else as `call`.
    pub async fn connect(dial: &Path, shown: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(dial)
            .await
            .map_err(|source| ClientError::Connect { path: shown.to_owned(), source })?;
        let served = server::daemon(&stream).await;
        let served = served.map_err(|found| match found {
            // A daemon that was killed a moment ago, or somebody who poses as one: nobody is there.
            ServerError::Ended => {
                let source = io::Error::new(io::ErrorKind::ConnectionRefused, found);
                ClientError::Connect { path: shown.to_owned(), source }
            }
            found => ClientError::NotTheDaemon { path: shown.to_owned(), found },
        })?;
        Client::with(stream, served.doubt).await
    }

    /// Introduces itself on a connection to this process itself.
    ///
    /// # Errors
    /// As `call`.
    pub async fn over(stream: UnixStream) -> Result<Self, ClientError> {
        Client::with(stream, None).await
    }

    async fn with(stream: UnixStream, doubt: Option<ServerError>) -> Result<Self, ClientError> {
        let (reader, writer) = stream.into_split();
        let mut client = Client {
            questions: Questions { writer, next_id: 1, line: Vec::new(), doubt },
            messages: Messages { lines: LineReader::new(reader, ANSWER_LIMIT) },
            server: Initialized {
                protocol_version: PROTOCOL_VERSION,
                server_version: String::new(),
                server_pid: 0,
                capabilities: Vec::new(),
            },
        };
        client.server = client.call("initialize", &Initialize { protocol_version: PROTOCOL_VERSION }).await?;
        Ok(client)
    }

    /// What the daemon said about itself.
    #[must_use]
    pub fn server(&self) -> &Initialized {
        &self.server
    }

    /// Asks and waits for the answer; notifications that come before it are dropped.
    ///
    /// # Errors
    /// `Reply` when the daemon refuses, `Lost` and `Protocol` when there is no answer.
    pub async fn call<T: DeserializeOwned>(&mut self, method: &str, params: &impl Serialize) -> Result<T, ClientError> {
        let asked = match self.questions.send(method, params).await {
            Ok(asked) => asked,
            Err(error) => return Err(self.last_words().await.unwrap_or(error)),
        };
        loop {
            let Message::Answer { id, result } = self.messages.next().await? else {
                continue;
            };
            if id == asked {
                return decode(result);
            }
        }
    }

    /// Why the daemon closed, if it said so before it did.
    async fn last_words(&mut self) -> Option<ClientError> {
        match self.messages.next().await {
            Err(error @ ClientError::Reply { .. }) => Some(error),
            Ok(_) | Err(_) => None,
        }
    }

    /// The two halves, for who talks and listens at the same time.
    #[must_use]
    pub fn split(self) -> (Questions, Messages) {
        (self.questions, self.messages)
    }
}

/// The typed content of an answer.
///
/// # Errors
/// `Reply` when it is a refusal, `Protocol` when it does not have that form.
pub fn decode<T: DeserializeOwned>(result: Result<Box<RawValue>, (i64, String)>) -> Result<T, ClientError> {
    let raw = result.map_err(|(code, message)| ClientError::Reply { code, message })?;
    serde_json::from_str(raw.get()).map_err(|error| ClientError::Protocol(error.to_string()))
}
