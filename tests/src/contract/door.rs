//! What the interpreter needs of a door.
//!
//! An adapter starts the daemon and turns the lines of a data file into bytes and back. It does not compare: whatever
//! arrives is given as text, and the interpreter compares it with the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::pattern::Names;
use crate::codecast::http::Answer;
use crate::wait;

/// An HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// Headers of the file's, beside those every proper request has.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An error a call was answered with.
#[derive(Clone, Debug)]
pub struct CallError {
    /// A number or a word.
    pub code: String,
    /// The message, escaped as on the wire.
    pub message: String,
}

/// The adapter of a door. Connections are opened when their name is used first; the empty name is the case's own.
///
/// Methods for signs and directives the door's language does not have are never called.
pub trait Door {
    /// Where the directories of the cases are made.
    fn work(&self) -> PathBuf;

    /// Starts a case: closes the connections of the case before and opens the case's own.
    ///
    /// # Errors
    /// If that does not work.
    fn begin(&mut self, number: usize) -> Result<(), String>;

    /// The values of the door's placeholders.
    fn names(&self) -> Names;

    /// Those that may have changed after a directive.
    fn changed_names(&self) -> Names {
        self.names()
    }

    /// Prepares a shell command of a case.
    fn set_environment(&self, command: &mut Command, directory: &Path);

    /// Everything the daemon has logged so far; with several daemons, the one of that connection.
    fn log(&self, connection: &str) -> String;

    /// How long something that is expected may take, before `HOSTEL_TEST_SCALE`: for the functions of [`wait`].
    fn limit(&self) -> Duration {
        wait::LIMIT
    }

    /// The same after `HOSTEL_TEST_SCALE`: for reads from a socket.
    fn read_limit(&self) -> Duration {
        wait::scaled(self.limit())
    }

    /// What has arrived on a connection and was not looked at yet.
    fn pending(&self, _connection: &str) -> Vec<String> {
        Vec::new()
    }

    /// `! fresh-daemon`: a new daemon in place of the present one, with these options.
    ///
    /// # Errors
    /// If the options are wrong.
    fn fresh(&mut self, _options: &str) -> Result<(), String> {
        unsupported()
    }

    /// `>` and `>.`: sends bytes, followed by the end of a message if `whole`.
    ///
    /// # Errors
    /// If the connection is closed.
    fn send(&mut self, _connection: &str, _bytes: &[u8], _whole: bool) -> Result<(), String> {
        unsupported()
    }

    /// `>>`: completes a call and sends it.
    ///
    /// # Errors
    /// If the connection is closed.
    fn call(&mut self, _connection: &str, _text: &str) -> Result<(), String> {
        unsupported()
    }

    /// `>-`: the same for a call that gets no answer.
    ///
    /// # Errors
    /// If the connection is closed.
    fn notify(&mut self, _connection: &str, _text: &str) -> Result<(), String> {
        unsupported()
    }

    /// `>:`: makes an HTTP request.
    ///
    /// # Errors
    /// If the connection is closed.
    fn request(&mut self, _connection: &str, _request: &Request) -> Result<(), String> {
        unsupported()
    }

    /// `<`: the next message, or the body of the response.
    ///
    /// # Errors
    /// If none comes.
    fn message(&mut self, _connection: &str) -> Result<String, String> {
        unsupported()
    }

    /// `<=`: the result of the last call. The adapter checks everything around it.
    ///
    /// # Errors
    /// If the call has no result: what came instead.
    fn result(&mut self, _connection: &str) -> Result<String, String> {
        unsupported()
    }

    /// `<!`: the error of the last call. The adapter checks everything around it.
    ///
    /// # Errors
    /// If the call has no error: what came instead.
    fn error(&mut self, _connection: &str) -> Result<CallError, String> {
        unsupported()
    }

    /// `<#`, `<+`, `<-`, `<*`: the response to the last request, as often as it is asked for.
    ///
    /// # Errors
    /// If none comes.
    fn response(&mut self, _connection: &str) -> Result<Answer, String> {
        unsupported()
    }

    /// `<~`: the next event of the stream; in a JSON file its name, a blank and its data. `None` when it is over.
    ///
    /// # Errors
    /// If none comes.
    fn event(&mut self, _connection: &str) -> Result<Option<String>, String> {
        unsupported()
    }

    /// `<~!`: every event that [`Door::event`] gave since the stream was opened.
    ///
    /// # Errors
    /// If there is no stream.
    fn past_events(&self, _connection: &str) -> Result<Vec<String>, String> {
        unsupported()
    }

    /// `~`: the output of a channel since it was last asked for, as soon as it has `length` bytes or the channel is over.
    ///
    /// # Errors
    /// If it does not become so long.
    fn output(&mut self, _connection: &str, _channel: &str, _length: usize) -> Result<Vec<u8>, String> {
        unsupported()
    }

    /// A standard directive other than `fresh-daemon`, or one of the door's own. May set names.
    ///
    /// # Errors
    /// If it fails.
    fn directive(&mut self, _connection: &str, _word: &str, _text: &str, _names: &mut Names) -> Result<(), String> {
        unsupported()
    }
}

fn unsupported<T>() -> Result<T, String> {
    Err("the adapter of this door lacks what its language promises".to_owned())
}

/// The open connections of a case by name.
#[derive(Debug)]
pub struct Connections<C> {
    open: BTreeMap<String, C>,
}

impl<C> Default for Connections<C> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

impl<C> Connections<C> {
    /// The connection of this name, opened if there is none.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn get(&mut self, name: &str, open: impl FnOnce() -> Result<C, String>) -> Result<&mut C, String> {
        if !self.open.contains_key(name) {
            let connection = open().map_err(|reason| format!("cannot connect: {reason}"))?;
            self.open.insert(name.to_owned(), connection);
        }
        self.open.get_mut(name).ok_or_else(|| "no connection".to_owned())
    }

    /// The connection of this name, if it is open.
    pub fn existing(&self, name: &str) -> Option<&C> {
        self.open.get(name)
    }

    /// Puts another connection in the place of this name's.
    pub fn replace(&mut self, name: &str, connection: C) {
        self.open.insert(name.to_owned(), connection);
    }

    /// Closes a connection.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn cut(&mut self, name: &str) -> Result<(), String> {
        self.open.remove(name).map(drop).ok_or_else(|| "there is no such connection".to_owned())
    }

    /// Closes all connections.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}
