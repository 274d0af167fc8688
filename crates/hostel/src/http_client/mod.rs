//! Requests to servers elsewhere: webhooks, collectors of numbers, downloads.
//!
//! HTTP/1.1 over TCP, or over TLS with the authorities that the system trusts, through the proxy that the environment
//! names. Each request has a connection of its own: requests are rare here, and nothing stays open between them.
//! Limits on the time of a whole request belong to the caller; only connecting is limited here.
//!
//! No error contains the address: it may hold credentials.

mod address;
mod connect;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use hostel_tasks::SpawnBoxed as _;
use tokio::task::JoinSet;

pub(crate) use address::{Address, AddressError};
use connect::{Connection, Connector};

/// Redirects that are followed before giving up.
const MAX_REDIRECTS: usize = 10;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("the request failed: {0}")]
    Exchange(String),
    #[error("the redirect cannot be followed: {0}")]
    Redirect(AddressError),
    #[error("there are more than {MAX_REDIRECTS} redirects")]
    TooManyRedirects,
}

impl ClientError {
    fn exchange(error: &hyper::Error) -> Self {
        Self::Exchange(with_causes(error))
    }
}

/// The error and what caused it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Sends requests. The environment is read once, the system's certificates when TLS is first needed.
pub(crate) struct Client {
    connector: Connector,
}

/// A response whose body was not read yet. Its connection ends with it.
pub(crate) struct Answer {
    response: Response<Incoming>,
    _connection: JoinSet<()>,
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The length of the body, if the server has stated it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.response.body().size_hint().exact()
    }

    /// The next piece of the body; none at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.response.body_mut().frame().await {
            if let Ok(data) = frame.map_err(|error| ClientError::exchange(&error))?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

impl Client {
    pub(crate) fn new(connect_limit: Duration) -> Self {
        Self { connector: Connector::new(connect_limit) }
    }

    /// Fetches an address, following redirects.
    pub(crate) async fn get(&self, address: &Address) -> Result<Answer, ClientError> {
        let mut address = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send(Method::GET, &address, HeaderMap::new(), Bytes::new()).await?;
            let status = answer.status();
            let is_redirect = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
            let location = answer.response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            match location.filter(|_| is_redirect) {
                Some(location) => address = address.redirected(location).map_err(ClientError::Redirect)?,
                None => return Ok(answer),
            }
        }
        Err(ClientError::TooManyRedirects)
    }

    /// Posts JSON; only the status of the answer is read, and redirects are not followed.
    pub(crate) async fn post_json(
        &self,
        address: &Address,
        headers: &[(&'static str, &str)],
        body: String,
    ) -> Result<StatusCode, ClientError> {
        let fixed = [
            ("content-type", "application/json"),
            ("user-agent", concat!("hostel/", env!("CARGO_PKG_VERSION"))),
        ];
        let mut all = HeaderMap::new();
        for &(name, value) in fixed.iter().chain(headers) {
            let value = HeaderValue::from_str(value).map_err(|error| ClientError::Exchange(error.to_string()))?;
            all.insert(HeaderName::from_static(name), value);
        }
        Ok(self.send(Method::POST, address, all, Bytes::from(body)).await?.status())
    }

    async fn send(
        &self,
        method: Method,
        address: &Address,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, ClientError> {
        let connection = self.connector.connect(address).await.map_err(|error| ClientError::Connect(with_causes(&error)))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let host = HeaderValue::from_str(address.authority()).map_err(|error| ClientError::Exchange(error.to_string()))?;
        headers.insert(HOST, host);
        if let Some(authorization) = address.authorization() {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let Connection { stream, proxy } = connection;
        match proxy {
            Some(proxy) => {
                if let Some(authorization) = proxy.basic_auth() {
                    headers.insert(PROXY_AUTHORIZATION, authorization.clone());
                }
                *request.uri_mut() = address.uri().clone();
            }
            None => *request.uri_mut() = origin_form(address.uri()),
        }
        let failed = |error: hyper::Error| ClientError::exchange(&error);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let mut task = JoinSet::new();
        task.spawn_boxed(async move {
            // The sender or the body reports what went wrong.
            connection.await.ok();
        });
        let response = sender.send_request(request).await.map_err(failed)?;
        Ok(Answer { response, _connection: task })
    }
}

/// What stands in the request line when the server itself is asked.
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().map(|path| Uri::from(path.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Answers each connection with the next of some texts, and returns the heads and bodies of the requests.
    async fn server(answers: Vec<String>) -> (std::net::SocketAddr, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                requests.push(exchange(stream, &answer).await);
            }
            requests
        });
        (address, served)
    }

    async fn exchange(stream: TcpStream, answer: &str) -> String {
        let mut stream = BufReader::new(stream);
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut request).await.unwrap(), 0, "{request}");
        }
        let length = request.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        request + &String::from_utf8(body).unwrap()
    }

    async fn body(mut answer: Answer) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = answer.chunk().await.unwrap() {
            all.extend_from_slice(&piece);
        }
        all
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn a_download_follows_redirects() {
        let (there, other) = server(vec![ok("content")]).await;
        let (here, served) = server(vec![
            "HTTP/1.1 302 Found\r\nLocation: two?x\r\nContent-Length: 0\r\n\r\n".to_owned(),
            format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{there}/three\r\nContent-Length: 0\r\n\r\n"),
        ])
        .await;
        let address = Address::parse(&format!("http://me:pw@{here}/a/one")).unwrap();
        let answer = Client::new(LIMIT).get(&address).await.unwrap();
        assert_eq!((answer.status(), answer.content_length()), (StatusCode::OK, Some(7)));
        assert_eq!(body(answer).await, b"content");
        let requests = served.await.unwrap();
        assert!(requests[0].starts_with("GET /a/one HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests[1].starts_with("GET /a/two?x HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests.iter().all(|request| request.contains("authorization: Basic bWU6cHc=\r\n")), "{requests:?}");
        let last = other.await.unwrap().remove(0);
        assert!(last.contains(&format!("host: {there}\r\n")) && !last.contains("authorization"), "{last}");
    }

    #[tokio::test]
    async fn redirects_without_end_are_given_up() {
        let again = "HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_owned();
        let (here, _served) = server(vec![again; MAX_REDIRECTS + 1]).await;
        let address = Address::parse(&format!("http://{here}/")).unwrap();
        let failed = Client::new(LIMIT).get(&address).await.err().unwrap();
        assert!(matches!(failed, ClientError::TooManyRedirects), "{failed}");
    }

    #[tokio::test]
    async fn a_post_says_its_status_and_follows_nothing() {
        let (here, served) =
            server(vec!["HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_owned()]).await;
        let address = Address::parse(&format!("http://{here}/hook")).unwrap();
        let status = Client::new(LIMIT).post_json(&address, &[("x-hostel-delivery", "7")], "{}".to_owned()).await;
        assert_eq!(status.unwrap(), StatusCode::FOUND);
        let request = served.await.unwrap().remove(0);
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{}"), "{request}");
        assert!(request.contains("x-hostel-delivery: 7\r\n") && request.contains("user-agent: hostel/"), "{request}");
        assert!(request.contains("content-type: application/json\r\n"), "{request}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_an_error_without_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        drop(listener);
        let address = Address::parse(&format!("http://me:secret@{here}/path")).unwrap();
        let failed = Client::new(LIMIT).get(&address).await.err().unwrap().to_string();
        assert!(failed.starts_with("cannot connect: ") && !failed.contains("secret"), "{failed}");
        assert!(!failed.contains("path"), "{failed}");
    }
}
