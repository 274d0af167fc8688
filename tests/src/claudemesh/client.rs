//! A client of one mesh daemon over the socket or over loopback TCP: requests as the contract wants them, or with any
//! header left out or added.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;

use crate::codecast::http::{Answer, Connection};
use crate::wait;

use super::stream::Stream;

/// How a daemon is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// Its unix socket.
    Socket,
    /// Loopback TCP, with the token.
    Tcp,
}

impl Transport {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Socket, Self::Tcp];

    /// As the data files write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Tcp => "tcp",
        }
    }

    /// As the metrics write it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Socket => "uds",
            Self::Tcp => "tcp",
        }
    }
}

/// What is needed to reach a daemon.
#[derive(Clone, Debug)]
pub struct Client {
    /// How.
    pub transport: Transport,
    /// Where its socket is.
    pub socket: PathBuf,
    /// Its port on loopback.
    pub port: u16,
    /// Its token; shown over TCP only.
    pub token: String,
}

impl Client {
    /// A new connection.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(&self) -> Connection {
        match self.transport {
            Transport::Socket => {
                let socket = UnixStream::connect(&self.socket)
                    .unwrap_or_else(|error| panic!("cannot connect to {}: {error}", self.socket.display()));
                socket.set_read_timeout(Some(wait::limit())).expect("a socket takes a time limit");
                // What the connection does with it (shutting down, time limits) is the same for every kind of socket.
                let plain = TcpStream::from(OwnedFd::from(socket.try_clone().expect("a second handle")));
                Connection::over(Box::new(socket), plain)
            }
            Transport::Tcp => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
                Connection::open(address).unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
            }
        }
    }

    /// The headers every proper request has; `Host` and `Content-Length` are the connection's business.
    pub fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![("User-Agent".to_owned(), "hostel-tests/1".to_owned())];
        if self.transport == Transport::Tcp {
            headers.push(("Authorization".to_owned(), format!("Bearer {}", self.token)));
        }
        headers
    }

    /// Sends a request with further headers on a connection, and does not wait.
    pub fn send_on(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        more: &[(String, String)],
        body: &[u8],
    ) {
        let mut headers = self.headers();
        headers.retain(|(name, _)| !more.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        headers.extend_from_slice(more);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        connection.request(method, path, &headers, body);
    }

    /// A request on a connection of its own, and its answer.
    pub fn request(&self, method: &str, path: &str, more: &[(String, String)], body: &[u8]) -> Answer {
        let mut connection = self.connect();
        self.send_on(&mut connection, method, path, more, body);
        connection.answer()
    }

    /// Status and JSON of a request over the socket to a daemon that may be killed at any instant; `None` if no whole
    /// answer comes.
    pub fn try_request(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut socket = UnixStream::connect(&self.socket).ok()?;
        socket.set_read_timeout(Some(wait::limit())).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    /// A POST of JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[], body.to_string().as_bytes())
    }

    /// The answer to a GET that must be a 200.
    ///
    /// # Panics
    /// If it is not.
    pub fn get_json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.text());
        answer.json()
    }

    /// An event stream.
    ///
    /// # Panics
    /// If there is none.
    pub fn events(&self, query: &str, more: &[(String, String)]) -> Stream {
        self.stream(&format!("/v1/events{query}"), more)
    }

    /// An event stream, as soon as there is room for one: one that was closed a moment ago may still count.
    ///
    /// # Panics
    /// If there is none for long.
    pub fn events_soon(&self) -> Stream {
        wait::eventually("room for a stream", || {
            let mut connection = self.connect();
            self.send_on(&mut connection, "GET", "/v1/events", &[], b"");
            let answer = connection.answer();
            if answer.status == 200 { Ok(Stream::new(connection, answer)) } else { Err(answer.text()) }
        })
    }

    /// An event stream of another path.
    ///
    /// # Panics
    /// If there is none.
    pub fn stream(&self, path: &str, more: &[(String, String)]) -> Stream {
        let mut connection = self.connect();
        self.send_on(&mut connection, "GET", path, more, b"");
        let answer = connection.answer();
        assert_eq!(answer.status, 200, "no event stream: {}", answer.text());
        Stream::new(connection, answer)
    }
}
