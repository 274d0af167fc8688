//! Earlier keys for who has later ones: a member that comes after a key was changed reads what was written before.
//!
//! Invariant: a link goes from a later epoch to an earlier one, and the first one stays. It is sealed: whoever has only
//! earlier keys, or none, cannot use it.

use hostel_wire::encoding;
use hostel_wire::frames::shared::Link;

use super::super::update::bytes;
use super::{bucket, invalid, key};
use crate::engine::{Engine, KvError};
use crate::registry::load::parse;
use crate::registry::{Registry, RegistryError};

/// A link has this many bytes as base64 at most.
const MOST: usize = 256;

/// Links that are read at a time.
const PAGE: usize = 1000;

impl<E: Engine> Registry<E> {
    /// Links after an epoch, in order, and whether there are more.
    pub async fn shared_links(
        &self,
        mesh: &str,
        member: &str,
        after: Option<&str>,
    ) -> Result<(Vec<Link>, bool), RegistryError> {
        self.inner.snapshot(mesh)?.active_member(member)?;
        let after = match after {
            None => String::new(),
            Some(text) => match text.parse::<u64>() {
                Ok(epoch) => place(mesh, epoch),
                Err(_) => return invalid("`after` is no epoch"),
            },
        };
        let found = self.inner.engine.page(bucket::LINK, &key(mesh, ""), &after, PAGE, usize::MAX).await?;
        let more = found.len() == PAGE;
        let links: Result<_, _> = found.iter().map(|entry| parse(bucket::LINK, entry)).collect();
        Ok((links?, more))
    }

    /// Keeps a link, unless there is one.
    pub async fn shared_link_put(&self, mesh: &str, member: &str, link: Link) -> Result<(), RegistryError> {
        let (mesh, member) = (mesh.to_owned(), member.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&member)?;
            let general = snapshot.general().ok_or_else(|| RegistryError::TopicNotFound("general".to_owned()))?;
            if link.epoch >= link.under || link.under > general.epoch {
                return invalid("a link goes from a key there is to an earlier one");
            }
            if link.link.is_empty() || link.link.len() > MOST || encoding::unb64(&link.link).is_none() {
                return invalid("`link` must be a sealed key, as base64");
            }
            match inner.engine.cas(bucket::LINK, &place(&mesh, link.epoch), 0, bytes(&link)).await {
                Ok(_) | Err(KvError::Conflict { .. }) => Ok(()),
                Err(KvError::Engine(error)) => Err(error.into()),
            }
        })
        .await
    }
}

fn place(mesh: &str, epoch: u64) -> String {
    key(mesh, &format!("{epoch:020}"))
}
