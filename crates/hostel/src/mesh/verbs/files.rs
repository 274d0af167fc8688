//! Files: shared as they are at that moment, fetched into place, listed.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::File;
use crate::mesh::cli::FileAction;
use crate::mesh::cli::FileGet;
use crate::mesh::cli::FileShare;
use crate::mesh::client::Client;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::progress;
use crate::mesh::route;
use crate::mesh::show;
use crate::paths;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &File) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "files").await?;
    match &arguments.action {
        FileAction::Share(arguments) => share(desk, &client, arguments).await,
        FileAction::Get(arguments) => get(desk, &client, arguments).await,
        FileAction::List => list(desk, &client).await,
    }
}

async fn share(desk: &Desk<'_>, client: &Client, arguments: &FileShare) -> Result<ExitCode, Failure> {
    // The daemon has another working directory.
    let path = paths::absolute(&arguments.path)?;
    let mut body = json!({"path": utf8(&path)?, "persistent": arguments.persistent});
    if let Some(to) = &arguments.to {
        body["to"] = to.as_str().into();
    }
    if let Some(message) = &arguments.message {
        body["message"] = message.as_str().into();
    }
    let name = arguments.path.file_name().unwrap_or_default().to_string_lossy();
    let sealing = client.post("/v1/file/share", &body);
    let answer = progress::shown(desk.ui, &format!("sealing {name}"), || None, sealing).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = answer.get("size").and_then(Value::as_u64).unwrap_or_default();
    let to = arguments.to.as_deref().map_or("everybody in the mesh".to_owned(), |to| text::printable(to).into_owned());
    desk.ui.line(&format!(
        "shared {} ({}) with {to}: {}",
        text::printable(show::field(&answer, "name")),
        text::size(size),
        text::printable(show::field(&answer, "fileId"))
    ))?;
    Ok(ExitCode::SUCCESS)
}

async fn get(desk: &Desk<'_>, client: &Client, arguments: &FileGet) -> Result<ExitCode, Failure> {
    let names_itself = arguments.out.as_ref().is_none_or(|out| out.is_dir());
    // Its name is needed, or somebody wants to see how far it is.
    let known = match names_itself || progress::is_shown(desk.ui) {
        true => known(client, &arguments.id).await?,
        false => Value::Null,
    };
    let out = match &arguments.out {
        Some(out) if out.is_dir() => out.join(own_name(&known, &arguments.id)?),
        Some(out) => out.clone(),
        None => PathBuf::from(own_name(&known, &arguments.id)?),
    };
    let out = paths::absolute(&out)?;
    if arguments.out.is_none() && out.symlink_metadata().is_ok() {
        return Err(Failure::new(
            crate::mesh::failure::Code::Exists,
            "exists",
            format!("`{}` is there already", out.display()),
        )
        .hint("say where to put it with `--out PATH`"));
    }
    let unverified = arguments.unverified.then_some("true");
    let query = [("id", Some(arguments.id.as_str())), ("out", Some(utf8(&out)?)), ("unverified", unverified)];
    let target = with_query("/v1/file/get", &query);
    let far = || Some(progress::share(so_far(&out)?, size(&known)?));
    let fetching = format!("fetching {}", show::field(&known, "name"));
    let answer = progress::shown(desk.ui, &fetching, far, client.get(&target)).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = text::printable(show::field(&answer, "savedTo")).into_owned();
    let is_verified = answer.get("verified").and_then(Value::as_bool).unwrap_or_default();
    let doubt = if is_verified { "" } else { ", unverified: nobody has proven who shared it" };
    desk.ui.line(&format!("saved {place} ({}{doubt})", text::size(size(&answer).unwrap_or_default())))?;
    Ok(ExitCode::SUCCESS)
}

fn size(file: &Value) -> Option<u64> {
    file.get("size").and_then(Value::as_u64)
}

/// How much of a file is there: what grows beside its place, under its name.
fn so_far(out: &Path) -> Option<u64> {
    let beginning = format!(".{}.", out.file_name()?.to_str()?);
    let growing = std::fs::read_dir(out.parent()?).ok()?.flatten().filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(&beginning) && name.ends_with(".part"))
    });
    growing.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).max()
}

/// What is known of a file; nothing of one that is not there.
async fn known(client: &Client, id: &str) -> Result<Value, Failure> {
    let answer = client.get("/v1/file/list").await?;
    let known = show::list(&answer, "files").iter().find(|file| show::field(file, "id") == id);
    Ok(known.cloned().unwrap_or_default())
}

/// The name a file has at the broker, without anything that would lead out of this directory: it was another's choice.
fn own_name(known: &Value, id: &str) -> Result<String, Failure> {
    safe_name(show::field(known, "name")).ok_or_else(|| {
        Failure::not_found(format!("there is no file `{}` with a name to use here", text::printable(id)))
            .hint("see what there is with `claudemesh file list`, or say where to put it with `--out PATH`")
    })
}

fn safe_name(name: &str) -> Option<String> {
    let last = Path::new(name).file_name()?.to_str()?;
    let harmless = !last.starts_with('.') && text::printable(last) == last;
    harmless.then(|| last.to_owned())
}

async fn list(desk: &Desk<'_>, client: &Client) -> Result<ExitCode, Failure> {
    let answer = client.get("/v1/file/list").await?;
    let files = show::list(&answer, "files");
    if desk.ui.json() {
        desk.ui.data(&files)?;
        return Ok(ExitCode::SUCCESS);
    }
    if files.is_empty() {
        desk.ui.line("(none)")?;
        return Ok(ExitCode::SUCCESS);
    }
    // For people the name; who has none any more is shown by its id.
    let name = show::names(&client.get("/v1/member/list").await.unwrap_or_default());
    let mut table = Table::new(&["ID", "NAME", ">SIZE", "FROM", "?SINCE", ""]);
    for file in files {
        let kept = file.get("persistent").and_then(Value::as_bool).unwrap_or_default();
        table.row(vec![
            (Paint::Dim, show::field(file, "id").to_owned()),
            (Paint::Bold, show::field(file, "name").to_owned()),
            (Paint::Plain, text::size(file.get("size").and_then(Value::as_u64).unwrap_or_default())),
            (Paint::Plain, name(show::field(file, "uploadedBy"))),
            (Paint::Dim, show::time(show::field(file, "uploadedAt"))),
            (Paint::Dim, if kept { "kept" } else { "for a day" }.to_owned()),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

fn utf8(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::arguments(format!("`{}` is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_name_for_a_file_stays_in_this_directory() {
        assert_eq!(safe_name("core.dump").as_deref(), Some("core.dump"));
        assert_eq!(safe_name("../../.ssh/key").as_deref(), Some("key"));
        for bad in ["", "..", "/", ".bashrc", "a/.profile", "x\u{1b}[2J", "a\nb"] {
            assert_eq!(safe_name(bad), None, "{bad:?}");
        }
    }
}
