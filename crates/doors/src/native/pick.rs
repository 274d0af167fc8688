//! Which process people mean: by name, by id, or by the start of an id.

/// What a name or the start of an id means among these processes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pick {
    /// The one at this position.
    One(usize),
    /// None.
    Nothing,
    /// More than one.
    Several,
}

/// The shortest start of an id that is looked at.
pub const ID_PREFIX_MINIMUM: usize = 4;

/// Finds a process by its name, its id, or the unique start of its id, in this order. `known` gives id and name.
pub fn pick<'a>(wanted: &str, known: impl Iterator<Item = (&'a str, &'a str)>) -> Pick {
    let mut by_name = Pick::Nothing;
    let mut by_id = Pick::Nothing;
    for (position, (id, name)) in known.enumerate() {
        if name == wanted || id == wanted {
            // Names are unique within a house; a later one would be its successor.
            by_name = Pick::One(position);
        } else if wanted.len() >= ID_PREFIX_MINIMUM && id.starts_with(wanted) {
            by_id = match by_id {
                Pick::Nothing => Pick::One(position),
                _ => Pick::Several,
            };
        }
    }
    if by_name == Pick::Nothing { by_id } else { by_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_win_over_ids_and_short_starts_are_nothing() {
        let known = [("abcd1", "web"), ("abcd2", "db"), ("ef012", "abcd")];
        let found = |wanted: &str| pick(wanted, known.iter().copied());
        assert_eq!(found("web"), Pick::One(0));
        assert_eq!(found("abcd2"), Pick::One(1));
        assert_eq!(found("abcd"), Pick::One(2));
        assert_eq!(found("ef01"), Pick::One(2));
        assert_eq!(found("ef0"), Pick::Nothing);
        assert_eq!(pick("abcd", known.iter().copied().take(2)), Pick::Several);
        assert_eq!(found(""), Pick::Nothing);
    }
}
