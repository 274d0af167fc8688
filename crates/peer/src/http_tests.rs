use hyper::Request;

use super::*;

fn head(method: Method, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn is_ours(hosts: &Hosts, host: &str) -> bool {
    hosts.is_ours(host.as_bytes(), None)
}

const OURS: [&str; 6] = ["localhost", "LOCALHOST:9100", "127.0.0.1", "127.0.0.1:1", "[::1]:9100", "[::1]"];
const NEVER_OURS: [&str; 16] = [
    "",
    "evil.example",
    "evil.example:9100",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "[::1",
    "[::1]x",
    "[::2]",
    "[::2]:1",
    "localhost:",
    "localhost:80x",
    "localhost:123456",
    "user@localhost",
    "0.0.0.0",
    "10.0.0.1:80",
    "?",
];

#[test]
fn the_usual_names_of_this_machine_and_others() {
    let hosts = Hosts::default();
    for host in OURS {
        assert!(is_ours(&hosts, host), "{host}");
    }
    for host in NEVER_OURS.into_iter().chain(["localhost.", "127.0.0.2", "::1", "127.9.9.9:80"]) {
        assert!(!is_ours(&hosts, host), "{host}");
    }
    assert!(!hosts.is_ours(b"\xff", None));
    let named = Hosts { names: vec!["box.lan".to_owned()], ..Hosts::default() };
    assert!(is_ours(&named, "Box.LAN:80") && !is_ours(&named, "box.lan.evil.example"));
}

#[test]
fn any_loopback_address() {
    let hosts = Hosts { any_loopback: true, ..Hosts::default() };
    for host in OURS.into_iter().chain(["127.9.9.9:80", "::1", "localhost.", "[::ffff:127.0.0.1]:1"]) {
        assert!(is_ours(&hosts, host), "{host}");
    }
    for host in NEVER_OURS {
        assert!(!is_ours(&hosts, host), "{host}");
    }
}

#[test]
fn the_address_that_a_connection_was_made_to() {
    let bound = Hosts { bound_address: true, ..Hosts::default() };
    let to = |ours: &str| Some(Ends { theirs: "192.0.2.9:1".parse().unwrap(), ours: ours.parse().unwrap() });
    assert!(bound.is_ours(b"192.0.2.1:4180", to("192.0.2.1:4180")));
    assert!(bound.is_ours(b"192.0.2.1", to("[::ffff:192.0.2.1]:4180")));
    assert!(bound.is_ours(b"[2001:db8::1]:4180", to("[2001:db8::1]:4180")));
    assert!(!bound.is_ours(b"192.0.2.2", to("192.0.2.1:4180")), "another address");
    assert!(!bound.is_ours(b"box.lan", to("192.0.2.1:4180")), "a name can be made to mean this address");
    assert!(!bound.is_ours(b"192.0.2.1", None));
    assert!(!Hosts::default().is_ours(b"192.0.2.1", to("192.0.2.1:4180")), "only where that was asked for");
}

#[test]
fn every_name_of_a_request_counts() {
    let guard = Guard { hosts: Hosts { required: true, ..Hosts::default() }, ..Guard::default() };
    let with = |target: &str, hosts: &[&str]| {
        let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        guard.check(&head(Method::GET, target, &headers), None)
    };
    assert_eq!(with("/", &["localhost"]), Ok(()));
    assert_eq!(with("http://localhost/", &[]), Ok(()));
    assert_eq!(with("/", &[]), Err(Rejection::Host));
    assert_eq!(Guard::default().check(&head(Method::GET, "/", &[]), None), Ok(()), "no name is no other name");
    assert_eq!(with("/", &["localhost", "evil.example"]), Err(Rejection::Host));
    assert_eq!(with("http://evil.example/", &["localhost"]), Err(Rejection::Host));
}

#[test]
fn origins_are_compared_to_the_letter() {
    let origins = Origins::Listed(vec!["http://a:1".to_owned()]);
    let with = |origins: &Origins, sent: &[&str]| {
        let headers: Vec<_> = sent.iter().map(|origin| ("origin", *origin)).collect();
        origins.admit(&head(Method::GET, "/", &headers).headers)
    };
    assert!(with(&origins, &[]) && with(&origins, &["http://a:1"]));
    for wrong in [&["http://a"][..], &[""], &["null"], &["http://a:1", "http://b"]] {
        assert!(!with(&origins, wrong), "{wrong:?}");
    }
    let local = Origins::Loopback;
    for ours in ["http://localhost", "https://LOCALHOST:1", "http://127.0.0.1:8080", "http://[::1]:1", "http://[::1]"] {
        assert!(with(&local, &[ours]), "{ours}");
    }
    for other in [
        "null",
        "",
        "localhost",
        "ftp://localhost",
        "http://localhost.evil.example",
        "http://evil.example",
        "http://localhost/",
    ] {
        assert!(!with(&local, &[other]), "{other}");
    }
}

#[test]
fn the_first_broken_rule_is_told() {
    let guard = Guard { refuse_preflights: true, ..Guard::default() };
    let wrong = [("origin", "http://evil.example"), ("host", "evil.example")];
    assert_eq!(guard.check(&head(Method::OPTIONS, "/", &wrong), None), Err(Rejection::Preflight));
    assert_eq!(guard.check(&head(Method::GET, "/", &wrong), None), Err(Rejection::Origin));
    assert_eq!(guard.check(&head(Method::GET, "/", &wrong[1..]), None), Err(Rejection::Host));
    assert_eq!(Guard::default().check(&head(Method::OPTIONS, "/", &[]), None), Ok(()));
}

#[test]
fn authorizations_are_taken_apart() {
    let of = |values: &[&str]| {
        let headers: Vec<_> = values.iter().map(|value| ("authorization", *value)).collect();
        head(Method::GET, "/", &headers).headers
    };
    for good in ["Bearer abc", "bearer  abc ", "BEARER abc"] {
        assert_eq!(Authorization::of(&of(&[good])).bearer(), Some(&b"abc"[..]), "{good}");
    }
    for wrong in [&[][..], &["abc"], &["Bearer"], &["Basic abc"], &["Bearer abc", "Bearer abc"]] {
        assert_eq!(Authorization::of(&of(wrong)).bearer(), None, "{wrong:?}");
    }
    assert_eq!(Authorization::of(&of(&["Bearer abc", "Basic x"])), Authorization::Repeated);
    assert_eq!(Authorization::of(&of(&["abc"])), Authorization::Malformed);
    assert_eq!(Authorization::of(&of(&["ClaudeMesh-Session 00"])).in_scheme("claudemesh-session"), Some(&b"00"[..]));
}

#[test]
fn content_types() {
    let with = |kind: &str| is_json(&head(Method::GET, "/", &[("content-type", kind)]).headers);
    for kind in ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"] {
        assert!(with(kind), "{kind}");
    }
    for kind in ["text/plain", "text/json", "application/jsonp", "application/+json", "json", ""] {
        assert!(!with(kind), "{kind}");
    }
    assert!(!is_json(&HeaderMap::new()));
}
