//! The layers of a guard, and which of them a machine allows.

use serde::{Deserialize, Serialize};

/// Which layers a process has, or is to have.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Layers {
    /// A view of the file system of its own.
    pub view: bool,
    /// Signals, abstract sockets and tracing only among the processes of the guard.
    pub scopes: bool,
}

impl Layers {
    /// Both.
    pub const FULL: Layers = Layers { view: true, scopes: true };

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.view, self.scopes) {
            (true, true) => "full",
            (true, false) => "view",
            (false, true) => "scopes",
            (false, false) => "none",
        }
    }

    /// Every layer of either.
    #[must_use]
    pub fn union(self, other: Layers) -> Layers {
        Layers { view: self.view || other.view, scopes: self.scopes || other.scopes }
    }

    /// Whether these include every layer of the other.
    #[must_use]
    pub fn cover(self, other: Layers) -> bool {
        self.union(other) == self
    }

    /// Whether nothing is enforced.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Layers::default()
    }
}

/// Which layers a machine allows, and for the others why not.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Availability {
    /// Why there is no view.
    pub no_view: Option<String>,
    /// Why there are no scopes.
    pub no_scopes: Option<String>,
}

impl Availability {
    /// Nothing can be had, for one reason.
    #[must_use]
    pub fn nothing(reason: &str) -> Self {
        Availability { no_view: Some(reason.to_owned()), no_scopes: Some(reason.to_owned()) }
    }

    /// The layers that can be had.
    #[must_use]
    pub fn layers(&self) -> Layers {
        Layers { view: self.no_view.is_none(), scopes: self.no_scopes.is_none() }
    }

    /// Why there is nothing stronger; none if both layers can be had.
    #[must_use]
    pub fn why_not_full(&self) -> Option<String> {
        match (&self.no_view, &self.no_scopes) {
            (None, None) => None,
            (Some(view), Some(scopes)) if view == scopes => Some(view.clone()),
            (view, scopes) => {
                let view = view.as_ref().map(|reason| format!("no view: {reason}"));
                let scopes = scopes.as_ref().map(|reason| format!("no scopes: {reason}"));
                Some(view.into_iter().chain(scopes).collect::<Vec<_>>().join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_compared_one_by_one() {
        let (view, scopes) = (Layers { view: true, scopes: false }, Layers { view: false, scopes: true });
        assert_eq!(view.union(scopes), Layers::FULL);
        assert!(Layers::FULL.cover(view) && view.cover(view) && view.cover(Layers::default()));
        assert!(!view.cover(scopes) && !scopes.cover(view) && !view.cover(Layers::FULL));
    }

    #[test]
    fn reasons_name_the_layer_that_is_missing() {
        let mut found = Availability::default();
        assert_eq!((found.layers(), found.why_not_full()), (Layers::FULL, None));
        found.no_scopes = Some("old kernel".to_owned());
        assert_eq!((found.layers().name(), found.why_not_full().as_deref()), ("view", Some("no scopes: old kernel")));
        found.no_view = Some("not allowed".to_owned());
        assert_eq!(found.why_not_full().as_deref(), Some("no view: not allowed; no scopes: old kernel"));
        let nothing = Availability::nothing("it hangs");
        assert_eq!((nothing.layers().name(), nothing.why_not_full().as_deref()), ("none", Some("it hangs")));
        assert!(nothing.layers().is_none());
    }
}
