//! Project paths as people write them.
//!
//! Pure: whether anything is there is asked elsewhere.

use std::path::{Path, PathBuf};

/// What a path of a client stands for: `~` is home, a bare name is a project. Nothing is tidied up.
pub(super) fn expand(given: &str, home: &Path) -> PathBuf {
    if given.starts_with('/') {
        PathBuf::from(given)
    } else if given == "~" {
        home.to_owned()
    } else if let Some(rest) = given.strip_prefix("~/") {
        below(home, rest)
    } else {
        below(&home.join("Projects"), given)
    }
}

/// `rest` below `folder`, letter by letter: `join` would take an absolute rest for the whole path.
fn below(folder: &Path, rest: &str) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push("/");
    path.push(rest);
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        for (given, expanded) in [
            ("/srv/x", "/srv/x"),
            ("/srv/../x/", "/srv/../x/"),
            ("~", "/home/me"),
            ("~/", "/home/me/"),
            ("~/a/b", "/home/me/a/b"),
            ("~//etc", "/home/me//etc"),
            ("name", "/home/me/Projects/name"),
            ("./x", "/home/me/Projects/./x"),
            ("~name", "/home/me/Projects/~name"),
            ("", "/home/me/Projects/"),
        ] {
            assert_eq!(expand(given, Path::new("/home/me")).as_os_str(), expanded, "{given:?}");
        }
    }
}
