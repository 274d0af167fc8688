//! Processes that are started with a guard around them.
//!
//! Invariant: a process that is to have a guard is started by the launcher or not at all. What it got is written in its
//! label, so that a later daemon knows it: whatever that process asks for gets a guard at least as strict. Where nobody
//! knows which guard a process inside has, what it asks for gets that of the strictest.

use std::sync::Arc;

use hostel_guard::{Confinement, Guard, GuardRefusal, Guards, Layers, Request, Setting, Shown};

use super::process::Process;
use super::{Processes, SpawnError, SpawnSpec};

/// The guard of a process that is to be started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpawnGuard {
    /// What is asked for.
    pub guard: Guard,
    /// Directories of its own that it sees inside hidden ones.
    pub shown: Vec<Shown>,
    /// The layers it must have: those of whoever asked for it.
    pub least: Layers,
}

impl Processes {
    /// What this house knows about guards.
    #[must_use]
    pub fn guards(&self) -> &Arc<Guards> {
        &self.house.options.guards
    }

    /// Puts the launcher before a request, if it is to have a guard, and says what it gets.
    pub(super) async fn confine(&self, spec: &mut SpawnSpec) -> Result<Option<Confinement>, SpawnError> {
        let Some(SpawnGuard { guard, shown, least }) = spec.guard.take() else { return Ok(None) };
        if guard.setting == Setting::Off && least.is_none() {
            return Ok(Some(Confinement { guard, layers: Layers::default() }));
        }
        let request = Request {
            program: std::mem::take(&mut spec.program),
            argv: std::mem::take(&mut spec.argv),
            environment: std::mem::take(&mut spec.env),
            shown,
        };
        let guards = Arc::clone(self.guards());
        // Trying starts a process and waits for it, and a plan looks at files.
        let wrapped = hostel_tasks::spawn_blocking(move || {
            let layers = guards.layers(&guard, least)?;
            guards.notice(hostel_peer::houses::running());
            Ok((guards.wrap(request, &guard, layers)?, Confinement { guard, layers }))
        });
        let wrapped = wrapped.await.map_err(|error| SpawnError::Guard(error.to_string()))?;
        let (wrapped, confinement) = wrapped.map_err(|refusal: GuardRefusal| SpawnError::Guard(refusal.to_string()))?;
        (spec.program, spec.argv, spec.env) = (wrapped.program, wrapped.argv, wrapped.environment);
        Ok(Some(confinement))
    }

    /// The guard that everything gets which somebody inside asks for, of whom it is not known in which process they run:
    /// that of an unknown insider, and of every process that there is or was.
    pub(crate) fn strictest(&self) -> Confinement {
        let registry = self.house.registry.read();
        let known = registry.by_id.values().filter_map(|process| process.confinement());
        known.fold(Confinement::of_unknown_insider(), |strictest, one| strictest.at_least(one))
    }

    /// The guard of whatever a process asks for, or what descends from it does: at least as strict as that process's own.
    pub(crate) fn handed_on(&self, process: &Process) -> Confinement {
        match process.confinement() {
            Some(confinement) => confinement.clone(),
            // It was started for somebody inside by a program that did not look at guards, or its label is lost.
            None if process.asked_by().is_some() || process.label.is_lost() => self.strictest(),
            // The owner of the house started it, or agreed to it.
            None => Confinement::none(),
        }
    }
}

impl Process {
    /// The guard it was started with; none if it was started without looking at one.
    #[must_use]
    pub fn confinement(&self) -> Option<&Confinement> {
        self.label.guard.as_ref()
    }
}
