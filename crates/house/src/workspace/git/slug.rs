//! The `owner/repo` part of a remote's address, as a pure function.
//!
//! Any host is taken. The answer exists only when exactly two non-empty segments follow the host; letters are kept
//! as they are and one trailing `.git` is cut.

/// The `owner/repo` of a remote address, or nothing when the address does not have that form.
pub fn repo_slug(address: &str) -> Option<String> {
    let (host, path) = split_host(address.trim())?;
    if host.is_empty() || host == "." || host == ".." {
        return None;
    }
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    match path.split_once('/') {
        Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() && !repo.contains('/') => {
            Some(format!("{owner}/{repo}"))
        }
        _ => None,
    }
}

/// The host and the path after it.
fn split_host(address: &str) -> Option<(&str, &str)> {
    if let Some((_, rest)) = address.split_once("://") {
        let (authority, path) = rest.split_once('/')?;
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        return Some((without_port(host), path));
    }
    // Without a scheme: `user@host:path`, where the user ends before the first separator of any kind.
    let end = address.find([':', '/'])?;
    let rest = match address[..end].rfind('@') {
        Some(at) => &address[at + 1..],
        None => address,
    };
    let end = rest.find([':', '/'])?;
    Some((&rest[..end], &rest[end + 1..]))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::repo_slug;
    use proptest::prelude::*;

    #[test]
    fn addresses_and_their_slugs() {
        for (address, slug) in [
            ("git@github.com:owner/repo.git", "owner/repo"),
            ("git@github.com:owner/repo", "owner/repo"),
            ("github.com:owner/repo.git", "owner/repo"),
            ("https://github.com/owner/repo.git", "owner/repo"),
            ("https://github.com/owner/repo", "owner/repo"),
            ("https://github.com/owner/repo/", "owner/repo"),
            ("https://github.com/owner/repo.git/", "owner/repo"),
            ("https://user:secret@github.com/owner/repo.git", "owner/repo"),
            ("https://token@gitlab.example/owner/repo", "owner/repo"),
            ("ssh://git@host.example/owner/repo.git", "owner/repo"),
            ("ssh://git@host.example:2222/owner/repo.git", "owner/repo"),
            ("http://localhost:3000/owner/repo", "owner/repo"),
            ("git://host/owner/repo", "owner/repo"),
            ("  https://host/Own-er_1/Re.po.git\n", "Own-er_1/Re.po"),
            ("https://host/owner/repo.git.git", "owner/repo.git"),
            ("git@host:owner/repo//", "owner/repo"),
            ("https://host/owner/na@me", "owner/na@me"),
            ("host.example/owner/repo", "owner/repo"),
            ("git@host:group/sub/project.git", ""),
            ("https://gitlab.com/group/sub/project", ""),
            ("git@host:2222/owner/repo", ""),
            ("https://host/repo", ""),
            ("https://host/", ""),
            ("https://host", ""),
            ("https://host//repo", ""),
            ("https://host/owner/.git", ""),
            ("/srv/git/owner/repo.git", ""),
            ("/owner/repo", ""),
            ("../owner/repo", ""),
            ("./owner/repo", ""),
            ("file:///owner/repo", ""),
            ("repo", ""),
            ("", ""),
            (":", ""),
            ("@", ""),
            ("://", ""),
        ] {
            assert_eq!(repo_slug(address).unwrap_or_default(), slug, "{address:?}");
        }
    }

    proptest! {
        #[test]
        fn no_address_breaks_it(address in "[a-z@:/. ]{0,30}") {
            if let Some(slug) = repo_slug(&address) {
                prop_assert_eq!(slug.matches('/').count(), 1);
                prop_assert!(!slug.starts_with('/') && !slug.ends_with('/'));
            }
        }

        #[test]
        fn the_common_forms_agree(owner in "[A-Za-z0-9_-]{1,8}", repo in "[A-Za-z0-9_-]{1,8}", suffix in "(\\.git)?/?") {
            let expected = format!("{owner}/{repo}");
            for address in [
                format!("git@example.org:{owner}/{repo}{suffix}"),
                format!("https://example.org/{owner}/{repo}{suffix}"),
                format!("ssh://git@example.org:22/{owner}/{repo}{suffix}"),
            ] {
                prop_assert_eq!(repo_slug(&address), Some(expected.clone()));
            }
        }
    }
}
