//! A session known to the mesh daemon, for as long as this program runs.
//!
//! Invariant: it is registered under our own process id, so that the daemon ends it when we cannot. A daemon that came
//! back without it is told again; one that remembers it is left alone.

use std::convert::Infallible;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use serde_json::json;
use zeroize::Zeroizing;

use super::token::Token;
use crate::mesh::cli::Launch;
use crate::mesh::client::Client;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::mesh::show;
use crate::text;
use crate::ui::Ui;

/// How often it is looked whether the daemon still knows the session.
const LOOK: Duration = Duration::from_secs(2);

/// How long taking leave may take.
const LEAVE: Duration = Duration::from_secs(3);

pub(super) struct Registration {
    /// The way to the daemon, as the member.
    member: Client,
    /// The same as the session.
    session: Client,
    /// What is said of it, but for its token.
    about: Value,
    name: String,
    address: String,
    token: Zeroizing<String>,
}

impl Registration {
    /// Registers a session; its name must not be in use.
    pub(super) async fn begin(
        member: Client,
        token: &Token,
        mesh: &str,
        name: &str,
        cwd: &str,
        arguments: &Launch,
    ) -> Result<Self, Failure> {
        let groups: Vec<Value> = arguments.groups.iter().map(|name| json!({"name": name})).collect();
        let mut about = json!({
            "session_id": name, "display_name": name, "mesh": mesh, "pid": std::process::id(), "cwd": cwd,
            "presence": true, "groups": groups,
        });
        if let Some(role) = &arguments.role {
            about["role"] = json!(role);
        }
        let mut new = Registration {
            session: member.clone().speaking(Some(token.text().clone())),
            address: String::new(),
            name: name.to_owned(),
            token: token.text().clone(),
            member,
            about,
        };
        let answer = new.register().await.map_err(|failure| taken(failure, name))?;
        show::field(&answer, "address").clone_into(&mut new.address);
        Ok(new)
    }

    async fn register(&self) -> Result<Value, Failure> {
        let mut request = self.about.clone();
        request["token"] = json!(self.token.as_str());
        self.member.post("/v1/sessions/register", &request).await
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What peers write to.
    pub(super) fn address(&self) -> &str {
        if self.address.is_empty() { &self.name } else { &self.address }
    }

    /// The way to the daemon, as the session.
    pub(super) fn speaking(&self) -> Client {
        self.session.clone()
    }

    /// Looks after it. Never comes to an end.
    pub(super) async fn keep(&self, ui: &Ui) -> Infallible {
        let mut away = false;
        loop {
            tokio::time::sleep(LOOK).await;
            let known = match self.session.ask(Method::GET, "/v1/sessions/me", None).await {
                Ok(answer) if answer.status == 401 => self.register().await.map(drop),
                Ok(_) => Ok(()),
                Err(lost) => Err(lost),
            };
            match (known, away) {
                (Err(failure), false) => {
                    away = true;
                    ui.note(&format!("the session is out of the mesh: {}", text::printable(failure.message())));
                }
                (Ok(()), true) => {
                    away = false;
                    ui.note("the session is in the mesh again");
                }
                _ => {}
            }
        }
    }

    /// Takes leave. A daemon that does not hear it finds our process gone.
    pub(super) async fn end(self) {
        let target = Zeroizing::new(format!("/v1/sessions/{}", self.token.as_str()));
        tokio::time::timeout(LEAVE, self.member.ask(Method::DELETE, &target, None)).await.ok();
    }
}

/// A name that somebody has is not ours to take.
fn taken(failure: Failure, name: &str) -> Failure {
    match failure.word() {
        "session_exists" => Failure::new(
            Code::Exists,
            "session_exists",
            format!("a session `{}` is in the mesh already", text::printable(name)),
        )
        .hint("choose another name with `--name NAME`"),
        _ => failure,
    }
}
