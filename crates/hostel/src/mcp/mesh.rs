//! The mesh behind the tools: each question goes to the mesh daemon's socket, as those of the verbs of `hostel mesh` do.
//!
//! Invariant: a daemon is looked for anew for every question, so meshes that are joined, left, started and stopped
//! meanwhile are noticed. None is started here: an error says how to. Who speaks is looked up for every question as well:
//! a session's token may come later than its agent, and dies before it.

use std::time::Duration;

use hostel_doors::mcp;
use hostel_doors::mcp::Caller;
use hostel_doors::mcp::Later;
use hostel_doors::mcp::MeshAnswer;
use hostel_doors::mcp::MeshEvent;
use hostel_doors::mcp::MeshEvents;
use hostel_doors::mcp::MeshFollowed;
use hostel_doors::mcp::MeshQuestion;
use hostel_house::insiders::Door;
use hostel_house::insiders::Insiders;
use hostel_peer::Peer;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::CommandError;
use crate::mesh::client::Client;
use crate::mesh::client::Events;
use crate::mesh::client::with_query;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::mesh::host::Host;
use crate::mesh::route;
use crate::mesh::speaker::Speaker;

/// How long a session's first question waits for the session to be known to the mesh.
const REGISTERING: Duration = Duration::from_secs(2);

/// The pause between two looks for it.
const LOOK: Duration = Duration::from_millis(50);

/// Whose words these are.
#[derive(Clone, Debug)]
pub(super) enum Words {
    /// Those of the session we were started in; of the member where that is none.
    Ours,
    /// Those of the session the calling process was started in; of the member where that is none. A process inside the
    /// house is of the session that the house knows it to be of, whatever its environment says.
    Callers(Insiders),
}

/// Who speaks, and whether the mesh daemon would take them for somebody outside because we ask for them.
struct Voice {
    speaker: Speaker,
    inside: bool,
}

impl Voice {
    fn outside(speaker: Speaker) -> Self {
        Voice { speaker, inside: false }
    }
}

/// The way to the daemons.
#[derive(Debug)]
pub(super) struct Mesh {
    pub(super) words: Words,
}

impl Mesh {
    async fn speaker(&self, caller: &Caller) -> Result<Speaker, Failure> {
        Ok(self.voice(caller).await?.speaker)
    }

    async fn voice(&self, caller: &Caller) -> Result<Voice, Failure> {
        let process = caller.peer.as_ref().and_then(Peer::pid);
        let session = match &self.words {
            Words::Ours => None,
            Words::Callers(insiders) => {
                let peer = caller.peer.clone().unwrap_or_else(Peer::unknown);
                let insider = insiders.find(Door::Mcp, &peer).await;
                insider.map(|insider| insiders.session_of(&insider))
            }
        };
        let ours = matches!(self.words, Words::Ours);
        // Files are not for the runtime's own threads.
        let looked = hostel_tasks::spawn_blocking(move || match (session, process) {
            (Some(session), _) => {
                let launched = session.as_ref().and_then(|session| session.launched());
                let file = session.and_then(|session| session.token_file());
                let speaker = file.map(|file| Speaker::of_session(&file, launched.map(|launched| launched.mesh)));
                Voice { speaker: speaker.unwrap_or_default(), inside: true }
            }
            (None, _) if ours => Voice::outside(Speaker::of_us()),
            (None, Some(process)) => Voice::outside(Speaker::of_process(process)),
            (None, None) => Voice::outside(Speaker::default()),
        });
        looked.await.map_err(|error| Failure::internal(error.to_string()))
    }

    /// Who speaks; a session that is not known to the mesh yet is waited for a little.
    async fn settled(&self, caller: &Caller) -> Result<Speaker, Failure> {
        let deadline = Instant::now() + REGISTERING;
        loop {
            let speaker = self.speaker(caller).await?;
            if !speaker.in_session || speaker.token.is_some() || Instant::now() >= deadline {
                return Ok(speaker);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The daemon of a mesh, spoken to as the member for the moment.
    async fn find(&self, speaker: &Speaker, mesh: Option<&str>) -> Result<(String, Client), Failure> {
        let asked = mesh.map(str::to_owned).or_else(|| speaker.mesh.clone());
        // The list of meshes is a file, and files are not for the runtime's own threads.
        let found = hostel_tasks::spawn_blocking(move || {
            let host = Host::quiet()?;
            let slug = route::slug(&host, asked.as_deref())?;
            Ok::<_, Failure>((host, slug))
        });
        let (host, slug) = found.await.map_err(|error| Failure::internal(error.to_string()))??;
        let (client, _) = route::reach(&host, &slug, "this").await?;
        Ok((slug, client.of_member()))
    }

    async fn answer(
        &self,
        caller: &Caller,
        mesh: Option<&str>,
        question: MeshQuestion<'_>,
    ) -> Result<MeshAnswer, Failure> {
        let mut speaker = self.speaker(caller).await?;
        let (mesh, client) = self.find(&speaker, mesh).await?;
        if speaker.in_session && speaker.token.is_none() {
            speaker = self.settled(caller).await?;
        }
        let client = client.speaking(speaker.token);
        let body = match question.body {
            Some(body) => client.post(&with_query(question.path, question.query), body).await?,
            None => client.get(&with_query(question.path, question.query)).await?,
        };
        Ok(MeshAnswer { mesh, body })
    }

    async fn joined(&self, caller: &Caller) -> Result<Vec<String>, Failure> {
        if let Some(mesh) = self.speaker(caller).await?.mesh {
            return Ok(vec![mesh]);
        }
        let found = hostel_tasks::spawn_blocking(|| Host::quiet()?.usable());
        found.await.map_err(|error| Failure::internal(error.to_string()))?
    }

    async fn stream(&self, caller: &Caller, mesh: &str, last: Option<&str>) -> Result<MeshFollowed, Failure> {
        let Voice { speaker, inside } = self.voice(caller).await?;
        let session = speaker.token.is_some();
        if (speaker.in_session || inside) && !session {
            // Until then it would hear what is the member's alone.
            return Err(Failure::new(Code::NotFound, "not_registered", "the mesh does not know this session yet"));
        }
        let (_, client) = self.find(&speaker, Some(mesh)).await?;
        let client = client.speaking(speaker.token);
        let target = with_query("/v1/events", &[("events", Some("message")), ("last_event_id", last)]);
        let events = client.stream(&target).await?;
        Ok(MeshFollowed { events: Box::new(Stream(events)), session })
    }
}

impl mcp::Mesh for Mesh {
    fn ask<'a>(
        &'a self,
        caller: &'a Caller,
        mesh: Option<&'a str>,
        question: MeshQuestion<'a>,
    ) -> Later<'a, Result<MeshAnswer, String>> {
        Box::pin(async move { self.answer(caller, mesh, question).await.map_err(words) })
    }

    fn meshes<'a>(&'a self, caller: &'a Caller) -> Later<'a, Result<Vec<String>, String>> {
        Box::pin(async move { self.joined(caller).await.map_err(words) })
    }

    fn follow<'a>(
        &'a self,
        caller: &'a Caller,
        mesh: &'a str,
        last: Option<&'a str>,
    ) -> Later<'a, Result<MeshFollowed, String>> {
        Box::pin(async move { self.stream(caller, mesh, last).await.map_err(words) })
    }
}

/// Events of a daemon.
struct Stream(Events);

impl MeshEvents for Stream {
    fn next(&mut self) -> Later<'_, Option<MeshEvent>> {
        Box::pin(async move {
            // A stream that broke and one that ended are taken up again in the same way.
            let event = self.0.next().await.ok().flatten()?;
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            Some(MeshEvent { id: event.id, name: event.name, data })
        })
    }
}

/// A failure for a model: the verbs as `hostel` has them, and what is an option there is an argument here.
fn words(failure: Failure) -> String {
    CommandError::from(failure).to_string().replace("`--mesh MESH`", "the argument `mesh`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_what_can_be_done_from_here() {
        let several = Failure::arguments("several meshes are joined").hint("say which with `--mesh MESH`");
        assert_eq!(words(several), "several meshes are joined; say which with the argument `mesh`");
        let unknown = Failure::refused(404, &serde_json::json!({"error": "peer_not_found"}));
        assert!(words(unknown).ends_with("see who is there with `hostel mesh peers --all`"));
    }
}
