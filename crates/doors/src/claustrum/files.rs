//! `files.*`: the wire around the workspace's files and archives.
//!
//! Everything touches the disk on threads made for waiting. A file's content is escaped piece by
//! piece on its way out, so that a reply never holds more than the file itself.

use super::connection::{Connection, Running};
use super::errors::{self, RpcError, push_head};
use super::gojson::encode::{piece_end, push_escaped};
use super::gojson::{Malformed, Object};
use super::params::{ExtractParams, PathParams};
use super::request::Method;
use hostel_house::workspace::archive::{self, Failure};
use hostel_house::workspace::files::{self, ReadError};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// How much of a file is escaped and written at a time.
const PIECE: usize = 128 * 1024;

/// What a method gives: a result, or a file that exists.
enum Answer {
    Result(Vec<u8>),
    Content(Vec<u8>),
}

/// Runs a method and sends its reply.
pub(crate) async fn call(connection: &Arc<Connection>, method: Method, mut running: Running) {
    let door = Arc::clone(&connection.door);
    let params = std::mem::take(&mut running.params);
    let worked = hostel_tasks::spawn_blocking(move || match method {
        Method::FilesExtractTar => extract_tar(&door, &params),
        method => look(&door, method, &params),
    });
    let outcome = match worked.await {
        Ok(outcome) => outcome,
        // The thread panicked: let the request's guard say so.
        Err(error) => match error.try_into_panic() {
            Ok(payload) => std::panic::resume_unwind(payload),
            Err(error) => Err(RpcError::internal(&error)),
        },
    };
    match outcome {
        Ok(Answer::Content(content)) => send_content(connection, running, &content).await,
        Ok(Answer::Result(result)) => connection.answer(running, &Ok(result)).await,
        Err(error) => connection.answer(running, &Err(error)).await,
    }
}

fn look(door: &super::door::Door, method: Method, params: &[u8]) -> Result<Answer, RpcError> {
    let params = PathParams::decode(params).map_err(invalid)?;
    let path = door.path(&params.path);
    let mut result = Vec::new();
    match method {
        Method::FilesStat => {
            let stat = files::stat(&path);
            Object::open(&mut result)
                .boolean("exists", stat.is_some())
                .boolean("isDir", stat.as_ref().is_some_and(|stat| stat.is_dir))
                .unsigned("size", stat.as_ref().map_or(0, |stat| stat.size))
                .string("mode", stat.as_ref().map_or("", |stat| &stat.mode))
                .close();
        }
        Method::FilesValidate => {
            let validity = files::validate(&path);
            let error = if validity.valid { "" } else { "Path does not exist" };
            Object::open(&mut result)
                .boolean("valid", validity.valid)
                .boolean("isDir", validity.is_dir)
                .nonempty("error", error)
                .close();
        }
        Method::FilesList => {
            let entries = files::list(&path, door.limits.list_entries).map_err(|error| RpcError::internal(&error))?;
            Object::open(&mut result)
                .array("entries", entries, |out, entry| {
                    Object::open(out)
                        .string("name", entry.name.as_bytes())
                        .string("path", entry.path.as_os_str().as_bytes())
                        .boolean("isDir", entry.is_dir)
                        .close();
                })
                .close();
        }
        _ => {
            let max_bytes = u64::try_from(params.max_bytes).ok().filter(|max| *max > 0);
            match files::read(&path, max_bytes, door.limits.read_bytes).map_err(|error| read_error(&error))? {
                Some(content) => return Ok(Answer::Content(content)),
                None => Object::open(&mut result).string("content", "").boolean("exists", false).close(),
            }
        }
    }
    Ok(Answer::Result(result))
}

fn read_error(error: &ReadError) -> RpcError {
    match error {
        ReadError::Directory | ReadError::NotRegular | ReadError::ExceedsMaxBytes => {
            RpcError::worded(errors::PARAMS, error.to_string())
        }
        _ => RpcError::internal(error),
    }
}

fn extract_tar(door: &super::door::Door, params: &[u8]) -> Result<Answer, RpcError> {
    let params = ExtractParams::decode(params).map_err(invalid)?;
    if params.archive_path.is_empty() || params.dest_dir.is_empty() {
        return Err(RpcError::params("archivePath and destDir are required"));
    }
    let archive = door.path(&params.archive_path);
    let destination = door.path(&params.dest_dir);
    let outcome = archive::extract_tar(&archive, &destination, &door.protected, &door.limits.archive);
    let (file_count, error) = match &outcome {
        Ok(count) => (*count, String::new()),
        Err(Failure { file_count, cause }) => (*file_count, cause.to_string()),
    };
    let mut result = Vec::new();
    Object::open(&mut result)
        .boolean("success", outcome.is_ok())
        .unsigned("fileCount", file_count)
        .nonempty("error", error)
        .close();
    Ok(Answer::Result(result))
}

/// Sends the reply of a `files.read` that found its file.
async fn send_content(connection: &Connection, running: Running, content: &[u8]) {
    let mut turn = connection.outbound.turn().await;
    let mut out = Vec::with_capacity(content.len().min(PIECE) + 128);
    push_head(&mut out, &running.id);
    out.extend_from_slice(b"\"result\":{\"content\":\"");
    let mut rest = content;
    loop {
        let (piece, after) = rest.split_at(piece_end(rest, PIECE));
        push_escaped(&mut out, piece);
        rest = after;
        if rest.is_empty() {
            out.extend_from_slice(b"\",\"exists\":true}}\n");
        }
        if let Err(error) = turn.write_all(&out).await {
            return connection.outbound.fail(&error, content.len() - rest.len(), content.len());
        }
        if rest.is_empty() {
            return;
        }
        out.clear();
    }
}

fn invalid(_: Malformed) -> RpcError {
    RpcError::invalid_params()
}
