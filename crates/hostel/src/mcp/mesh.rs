//! The mesh behind the tools: each question goes to the mesh daemon's socket, as those of the verbs of `hostel mesh` do.
//!
//! Invariant: a daemon is looked for anew for every question, so meshes that are joined, left, started and stopped
//! meanwhile are noticed. None is started here: an error says how to.

use hostel_doors::mcp;
use hostel_doors::mcp::Later;
use hostel_doors::mcp::MeshAnswer;
use hostel_doors::mcp::MeshQuestion;

use crate::error::CommandError;
use crate::mesh::client::Client;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::host::Host;
use crate::mesh::route;

/// For whom the daemon is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Speaker {
    /// The session whose environment this is; the member where it is none's.
    Environment,
    /// The member: the environment is the house's, not the caller's.
    Member,
}

/// The way to the daemons.
#[derive(Debug)]
pub(super) struct Mesh {
    pub(super) speaker: Speaker,
}

impl Mesh {
    async fn find(&self, mesh: Option<&str>) -> Result<(String, Client), Failure> {
        let asked = mesh.map(str::to_owned);
        // The list of meshes is a file, and files are not for the runtime's own threads.
        let found = tokio::task::spawn_blocking(move || {
            let host = Host::quiet()?;
            let slug = route::slug(&host, asked.as_deref())?;
            Ok::<_, Failure>((host, slug))
        });
        let (host, slug) = found.await.map_err(|error| Failure::internal(error.to_string()))??;
        let client = route::reach(&host, &slug, "this").await?;
        let client = match self.speaker {
            Speaker::Environment => client,
            Speaker::Member => client.of_member(),
        };
        Ok((slug, client))
    }
}

impl mcp::Mesh for Mesh {
    fn ask<'a>(&'a self, mesh: Option<&'a str>, question: MeshQuestion<'a>) -> Later<'a, Result<MeshAnswer, String>> {
        Box::pin(async move {
            let answer = async {
                let (mesh, client) = self.find(mesh).await?;
                let body = match question.body {
                    Some(body) => client.post(&with_query(question.path, question.query), body).await?,
                    None => client.get(&with_query(question.path, question.query)).await?,
                };
                Ok(MeshAnswer { mesh, body })
            };
            answer.await.map_err(words)
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
