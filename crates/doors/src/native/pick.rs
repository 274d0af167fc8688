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

/// The length of an id of a session that the house has made: a UUID.
const SESSION_ID_LENGTH: usize = 36;

/// Finds a process by its name, its id, or the unique start of its id. `known` gives id and name.
///
/// A name never wins over the start of an id that the house has made: a process inside chooses its names, and people name
/// others by the digits that they were shown.
pub fn pick<'a>(wanted: &str, known: impl Iterator<Item = (&'a str, &'a str)>) -> Pick {
    let (mut named, mut begun) = (Pick::Nothing, Pick::Nothing);
    for (position, (id, name)) in known.enumerate() {
        if id == wanted {
            return Pick::One(position);
        }
        if name == wanted {
            // Names are unique among those that run; a later one is the successor.
            named = Pick::One(position);
        } else if wanted.len() >= ID_PREFIX_MINIMUM && id.starts_with(wanted) {
            begun = begun.or(position);
        }
    }
    match (named, begun) {
        (Pick::Nothing, begun) => begun,
        (named, Pick::Nothing) => named,
        _ => Pick::Several,
    }
}

/// What a session can be named by.
#[derive(Clone, Copy, Debug)]
pub struct SessionName<'a> {
    /// Its id, which a client may have chosen.
    pub id: &'a str,
    /// Its name, which need not be unique.
    pub name: Option<&'a str>,
    /// It is in use.
    pub is_live: bool,
}

/// Finds a session by its id, its name, or the unique start of its id. The name of a session in use wins over that of a
/// closed one. As with processes, no chosen name or id wins over the start of an id that the house has made.
pub fn pick_session(wanted: &str, known: &[SessionName<'_>]) -> Pick {
    let is_made =
        |id: &str| id.len() == SESSION_ID_LENGTH && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    let named = |session: &SessionName<'_>| !wanted.is_empty() && session.name == Some(wanted);
    let begins = |session: &SessionName<'_>| wanted.len() >= ID_PREFIX_MINIMUM && session.id.starts_with(wanted);
    let only = |rule: &dyn Fn(&SessionName<'_>) -> bool| {
        let fitting = known.iter().enumerate().filter(|(_, session)| rule(session));
        fitting.fold(Pick::Nothing, |found, (position, _)| found.or(position))
    };
    if is_made(wanted) {
        return only(&|session| session.id == wanted);
    }
    let a_live_one = known.iter().any(|session| named(session) && session.is_live);
    let meant = only(&|session| {
        session.id == wanted
            || (named(session) && (session.is_live || !a_live_one))
            || (begins(session) && is_made(session.id))
    });
    if meant == Pick::Nothing { only(&begins) } else { meant }
}

impl Pick {
    /// One more that fits.
    fn or(self, position: usize) -> Self {
        match self {
            Pick::Nothing => Pick::One(position),
            Pick::One(_) | Pick::Several => Pick::Several,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_win_over_no_id_and_short_starts_are_nothing() {
        let known = [("abcd1", "web"), ("abcd2", "db"), ("ef012", "abcd"), ("77aa0", "abcd2")];
        let found = |wanted: &str| pick(wanted, known.iter().copied());
        assert_eq!(found("web"), Pick::One(0));
        assert_eq!(found("abcd2"), Pick::One(1));
        // Somebody has named a process like the digits of others.
        assert_eq!(found("abcd"), Pick::Several);
        assert_eq!(found("ef01"), Pick::One(2));
        assert_eq!(found("ef0"), Pick::Nothing);
        assert_eq!(pick("abcd", known.iter().copied().take(2)), Pick::Several);
        assert_eq!(found(""), Pick::Nothing);
    }
    #[test]
    fn sessions_are_found_by_id_name_and_start() {
        let (made, other) = ("4c9a8286-0001-4000-8000-000000000000", "4c9a8286-0002-4000-8000-000000000000");
        let known = [
            ("case-1", "web", true),
            ("case-10", "web", false),
            ("77aa-1", "old", false),
            ("77aa-2", "old", false),
            (made, "", true),
        ];
        let among = |more: &[(&'static str, &'static str, bool)], wanted: &str| {
            let all = [&known[..], more].concat();
            let names = all.iter().map(|&(id, name, is_live)| SessionName { id, name: Some(name), is_live });
            pick_session(wanted, &names.collect::<Vec<_>>())
        };
        let found = |wanted: &str| among(&[], wanted);
        assert_eq!([found("case-1"), found("case-10"), found("web")], [Pick::One(0), Pick::One(1), Pick::One(0)]);
        assert_eq!([found("old"), found("77aa-"), found("77aa-1")], [Pick::Several, Pick::Several, Pick::One(2)]);
        assert_eq!([found("4c9a8286"), found(made)], [Pick::One(4), Pick::One(4)]);
        assert_eq!([found("77a"), found(""), found("nothing")], [Pick::Nothing; 3]);
        // A name or an id that somebody has chosen to be taken for another session.
        for squatter in [("x", "4c9a8286", true), ("4c9a8286", "", true), ("web", "", true), (other, "", true)] {
            let wanted = if squatter.0 == "web" { "web" } else { "4c9a8286" };
            assert_eq!(among(&[squatter], wanted), Pick::Several, "{squatter:?}");
        }
        assert_eq!(among(&[("x", made, true)], made), Pick::One(4), "a whole id means one session");
    }
}
