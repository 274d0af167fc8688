//! Rules, one by one and against a plain reading of what they mean.

use std::path::PathBuf;

use hostel_agents::Raw;
use proptest::prelude::*;

use super::*;
use crate::pipelines::{Privilege, Writers};
use hostel_peer::PeerInfo;

fn stage(words: &[&str]) -> Stage {
    let path = PathBuf::from("/usr/bin").join(words[0].trim_start_matches('/'));
    let target = path.clone();
    Stage::new(words.iter().map(|word| (*word).to_owned()).collect(), file(path, target, Writers::OnlyRoot))
}

fn file(path: PathBuf, target: PathBuf, writers: Writers) -> Resolved {
    Resolved::Found {
        path,
        target,
        dev: 1,
        inode: 2,
        size: 3,
        digest: [4; 32],
        writers,
        interpreters: Vec::new(),
        libraries: Vec::new(),
    }
}

fn pipeline(stages: &[&[&str]], privilege: Privilege) -> Subject {
    Subject::Pipeline(Pipeline {
        stages: stages.iter().map(|words| stage(words)).collect(),
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        privilege,
        forward_agent: false,
    })
}

fn tool(name: &str) -> Subject {
    Subject::Tool { tool: name.to_owned(), input: Raw::null() }
}

fn requester() -> Requester {
    let peer = PeerInfo { program: "/usr/bin/node".to_owned(), ..PeerInfo::default() };
    Requester {
        door: "sudo-proxy".to_owned(),
        session: "alpha".to_owned(),
        client: "1.2.0".to_owned(),
        peer: Some(peer),
        ..Requester::default()
    }
}

fn rule(name: &str, action: Action) -> Rule {
    Rule {
        name: name.to_owned(),
        action,
        requester: None,
        session: None,
        cwd: None,
        tool: None,
        argv: None,
        env: None,
        privileged: None,
    }
}

fn glob(text: &str) -> Option<Glob> {
    Some(Glob::new(text).unwrap())
}

fn argv(words: &[&str]) -> Option<Vec<Glob>> {
    Some(words.iter().map(|word| Glob::new(word).unwrap()).collect())
}

fn verdict(rules: &[Rule], subject: &Subject) -> (Action, String) {
    let requester = requester();
    let Verdict { action, rule } = judge(rules, Facts::of(subject, &requester));
    (action, rule)
}

fn says(rules: &[Rule], subject: &Subject) -> Action {
    verdict(rules, subject).0
}

#[test]
fn without_rules_a_person_is_asked() {
    assert_eq!(verdict(&[], &pipeline(&[&["true"]], Privilege::None)), (Action::Ask, String::new()));
    assert_eq!(verdict(&[], &tool("Bash")), (Action::Ask, String::new()));
    assert_eq!(says(&[rule("all", Action::Allow)], &pipeline(&[], Privilege::None)), Action::Ask);
}

#[test]
fn the_strictest_wins_whatever_the_order() {
    let mut rules =
        vec![rule("a", Action::Allow), rule("b", Action::Deny), rule("c", Action::Ask), rule("d", Action::Deny)];
    let subject = pipeline(&[&["true"]], Privilege::None);
    assert_eq!(verdict(&rules, &subject), (Action::Deny, "b".to_owned()));
    rules.retain(|rule| rule.action != Action::Deny);
    assert_eq!(verdict(&rules, &subject), (Action::Ask, "c".to_owned()));
    rules.retain(|rule| rule.action != Action::Ask);
    assert_eq!(verdict(&rules, &subject), (Action::Allow, "a".to_owned()));
}

#[test]
fn words_count_each_in_its_place() {
    let rules = [Rule { argv: argv(&["apt", "install", "nginx*"]), ..rule("apt", Action::Allow) }];
    let says = |words: &[&str]| says(&rules, &pipeline(&[words], Privilege::None));
    assert_eq!(says(&["apt", "install", "nginx-full"]), Action::Allow);
    for other in [
        &["apt", "install"][..],
        &["apt", "install", "nginx", "evil"],
        &["apt-get", "install", "nginx"],
        &["apt", "remove", "nginx"],
        &["apt", "installer", "nginx"],
        &["install", "apt", "nginx"],
        &["apt install nginx"],
    ] {
        assert_eq!(says(other), Action::Ask, "{other:?}");
    }
}

#[test]
fn a_rule_that_allows_a_program_does_not_cover_it_with_other_code() {
    let brought = |variables: &[(&str, &str)], privilege| match pipeline(&[&["make", "test"]], privilege) {
        Subject::Pipeline(pipeline) => Subject::Pipeline(Pipeline {
            env: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..pipeline
        }),
        other => other,
    };
    let make = Rule { argv: argv(&["make", "test"]), ..rule("make", Action::Allow) };
    let named = Rule { env: argv(&["LD_LIBRARY_PATH"]), ..make.clone() };
    let (harmless, preload) = ([("TZ", "UTC")], [("TZ", "UTC"), ("LD_PRELOAD", "/tmp/x.so")]);
    let library = [("LD_LIBRARY_PATH", "/opt/lib")];
    let of = |rule: &Rule, variables: &[(&str, &str)]| {
        says(std::slice::from_ref(rule), &brought(variables, Privilege::None))
    };
    assert_eq!((of(&make, &harmless), of(&make, &preload)), (Action::Allow, Action::Ask));
    assert_eq!((of(&make, &library), of(&named, &library)), (Action::Ask, Action::Allow));
    assert_eq!(of(&named, &preload), Action::Ask);
    let root = Rule { privileged: Some(true), ..make.clone() };
    let as_root = |variables: &[(&str, &str)]| says(std::slice::from_ref(&root), &brought(variables, Privilege::Sudo));
    assert_eq!((as_root(&harmless), as_root(&preload)), (Action::Allow, Action::Ask));
    // What is refused or asked about is so whatever the environment is, and a rule that names no program names none.
    let deny = Rule { action: Action::Deny, ..make };
    assert_eq!(of(&deny, &preload), Action::Deny);
    assert_eq!(of(&Rule { requester: glob("sudo-proxy"), ..rule("door", Action::Allow) }, &preload), Action::Allow);
}

#[test]
fn a_last_pair_of_stars_stands_for_any_further_words() {
    let rules = [Rule { argv: argv(&["make", "**"]), ..rule("make", Action::Allow) }];
    for words in [&["make"][..], &["make", "test"], &["make", "-C", "/x/y", "all"]] {
        assert_eq!(says(&rules, &pipeline(&[words], Privilege::None)), Action::Allow, "{words:?}");
    }
    assert_eq!(says(&rules, &pipeline(&[&["cmake"]], Privilege::None)), Action::Ask);
    // A word that is one star is any one word.
    let rules = [Rule { argv: argv(&["cat", "*"]), ..rule("cat", Action::Allow) }];
    assert_eq!(says(&rules, &pipeline(&[&["cat", "/a/b"]], Privilege::None)), Action::Allow);
    assert_eq!(says(&rules, &pipeline(&[&["cat"]], Privilege::None)), Action::Ask);
    assert_eq!(says(&rules, &pipeline(&[&["cat", "a", "b"]], Privilege::None)), Action::Ask);
}

#[test]
fn a_permission_does_not_lead_out_of_its_place() {
    let rules = [Rule { argv: argv(&["rm", "/tmp/**"]), ..rule("tmp", Action::Allow) }];
    assert_eq!(says(&rules, &pipeline(&[&["rm", "/tmp/a/b"]], Privilege::None)), Action::Allow);
    assert_eq!(says(&rules, &pipeline(&[&["rm", "/tmp/../etc/passwd"]], Privilege::None)), Action::Ask);
    let rules = [Rule { argv: argv(&["rm", "/etc/**"]), ..rule("etc", Action::Deny) }];
    assert_eq!(says(&rules, &pipeline(&[&["rm", "/etc/../etc/passwd"]], Privilege::None)), Action::Deny);
}

#[test]
fn each_stage_must_be_allowed_and_one_denied_is_enough() {
    let rules = [
        Rule { argv: argv(&["cat", "*"]), ..rule("cat", Action::Allow) },
        Rule { argv: argv(&["sort"]), ..rule("sort", Action::Allow) },
        Rule { argv: argv(&["rm", "**"]), ..rule("rm", Action::Deny) },
    ];
    let says = |stages: &[&[&str]]| says(&rules, &pipeline(stages, Privilege::None));
    assert_eq!(says(&[&["cat", "x"], &["sort"]]), Action::Allow);
    assert_eq!(says(&[&["cat", "x"], &["sh"]]), Action::Ask);
    assert_eq!(says(&[&["sh"], &["cat", "x"]]), Action::Ask);
    assert_eq!(says(&[&["cat", "x"], &["rm", "-rf", "/"], &["sort"]]), Action::Deny);
}

#[test]
fn root_is_never_meant_unless_it_is_said() {
    let broad = [Rule { argv: argv(&["true"]), ..rule("true", Action::Allow) }];
    let root = Rule { privileged: Some(true), ..broad[0].clone() };
    let (plain, privileged) = (pipeline(&[&["true"]], Privilege::None), pipeline(&[&["true"]], Privilege::Sudo));
    assert_eq!(says(&broad, &plain), Action::Allow);
    for privilege in [Privilege::Sudo, Privilege::Pkexec] {
        assert_eq!(says(&broad, &pipeline(&[&["true"]], privilege)), Action::Ask);
    }
    assert_eq!(says(std::slice::from_ref(&root), &privileged), Action::Allow);
    assert_eq!(says(&[root], &plain), Action::Ask);
    let not_root = Rule { privileged: Some(false), ..broad[0].clone() };
    assert_eq!(says(std::slice::from_ref(&not_root), &plain), Action::Allow);
    assert_eq!(says(&[not_root], &privileged), Action::Ask);
    // What is refused is refused to root as well.
    for action in [Action::Deny, Action::Ask] {
        assert_eq!(verdict(&[rule("r", action)], &privileged), (action, "r".to_owned()));
    }
}

#[test]
fn a_program_is_denied_by_any_of_its_names_and_allowed_by_the_one_it_is_asked_for_with() {
    let deny = [Rule { argv: argv(&["rm", "**"]), ..rule("rm", Action::Deny) }];
    let allow = [Rule { argv: argv(&["rm", "**"]), ..rule("rm", Action::Allow) }];
    let mut renamed = stage(&["tidy", "x"]);
    renamed.file = file("/usr/bin/tidy".into(), "/usr/bin/rm".into(), Writers::OnlyRoot);
    let other_place = stage(&["/opt/bin/rm", "x"]);
    for stage in [renamed, other_place] {
        let subject = Subject::Pipeline(Pipeline {
            stages: vec![stage],
            env: Vec::new(),
            cwd: "/".into(),
            privilege: Privilege::None,
            forward_agent: false,
        });
        assert_eq!(says(&deny, &subject), Action::Deny);
        assert_eq!(says(&allow, &subject), Action::Ask);
    }
    let by_path = [Rule { argv: argv(&["/usr/bin/make"]), ..rule("make", Action::Allow) }];
    assert_eq!(says(&by_path, &pipeline(&[&["make"]], Privilege::None)), Action::Allow);
}

#[test]
fn who_asks_and_where() {
    let subject = pipeline(&[&["true"]], Privilege::None);
    let matching = [
        Rule { requester: glob("sudo-proxy"), ..rule("door", Action::Allow) },
        Rule { requester: glob("/usr/bin/n*"), ..rule("program", Action::Allow) },
        Rule { cwd: glob("/"), ..rule("cwd", Action::Allow) },
    ];
    for rule in matching {
        assert_eq!(verdict(std::slice::from_ref(&rule), &subject), (Action::Allow, rule.name));
    }
    // A rule that refuses may go by what the requester says: that only makes it stricter.
    let stricter = Rule { session: glob("al*"), ..rule("session", Action::Deny) };
    assert_eq!(verdict(std::slice::from_ref(&stricter), &subject), (Action::Deny, stricter.name));
    let others = [
        Rule { requester: glob("zeroclaw"), ..rule("door", Action::Allow) },
        Rule { requester: glob("node"), ..rule("program", Action::Allow) },
        Rule { session: glob("beta"), ..rule("session", Action::Allow) },
        // What the requester says about itself allows nothing.
        Rule { session: glob("al*"), ..rule("told session", Action::Allow) },
        Rule { requester: glob("1.2.*"), ..rule("told client", Action::Allow) },
        Rule { cwd: glob("/home/**"), ..rule("cwd", Action::Allow) },
        Rule { tool: glob("*"), ..rule("tool", Action::Allow) },
        Rule { session: glob("alpha"), requester: glob("other"), ..rule("both", Action::Allow) },
    ];
    for rule in others {
        assert_eq!(says(std::slice::from_ref(&rule), &subject), Action::Ask, "{rule:?}");
    }
}

#[test]
fn nothing_is_allowed_to_root_because_of_the_program_that_asks() {
    let subject = pipeline(&[&["true"]], Privilege::Sudo);
    let with =
        |requester: &str, action| Rule { requester: glob(requester), privileged: Some(true), ..rule("root", action) };
    assert_eq!(says(&[with("sudo-proxy", Action::Allow)], &subject), Action::Allow);
    assert_eq!(says(&[with("/usr/bin/n*", Action::Allow)], &subject), Action::Ask);
    assert_eq!(says(&[with("/usr/bin/n*", Action::Deny)], &subject), Action::Deny);
}

#[test]
fn no_rule_allows_root_what_others_can_change() {
    let rules = [Rule { privileged: Some(true), ..rule("root", Action::Allow) }, rule("anything", Action::Allow)];
    let changeable = |privilege| {
        let Subject::Pipeline(mut pipeline) = pipeline(&[&["a"], &["b"]], privilege) else { panic!("no pipeline") };
        pipeline.stages[1].file = file("/b".into(), "/b".into(), Writers::Requester("user 1 owns /b".to_owned()));
        Subject::Pipeline(pipeline)
    };
    assert_eq!(says(&rules, &pipeline(&[&["a"], &["b"]], Privilege::Sudo)), Action::Allow);
    for (privilege, action) in
        [(Privilege::Sudo, Action::Ask), (Privilege::Pkexec, Action::Ask), (Privilege::None, Action::Allow)]
    {
        assert_eq!(says(&rules, &changeable(privilege)), action, "{privilege:?}");
    }
    let refuse = [rules.as_slice(), &[rule("nothing", Action::Deny)]].concat();
    assert_eq!(says(&refuse, &changeable(Privilege::Sudo)), Action::Deny);
}

#[test]
fn an_agent_and_its_session_are_facts_of_the_house() {
    let subject = tool("Read");
    let requester = Requester { client: "claude".to_owned(), session: "s-1".to_owned(), ..Requester::default() };
    let says = |rule: Rule| judge(&[rule], Facts::of(&subject, &requester)).action;
    assert_eq!(says(Rule { requester: glob("claude"), ..rule("agent", Action::Allow) }), Action::Allow);
    assert_eq!(says(Rule { session: glob("s-*"), ..rule("session", Action::Allow) }), Action::Allow);
}

#[test]
fn tools_have_names_and_no_words() {
    let rules = [Rule { tool: glob("Read"), ..rule("read", Action::Allow) }];
    assert_eq!(says(&rules, &tool("Read")), Action::Allow);
    assert_eq!(says(&rules, &tool("ReadAll")), Action::Ask);
    let words = [Rule { argv: argv(&["**"]), ..rule("words", Action::Deny) }];
    assert_eq!(says(&words, &tool("Read")), Action::Ask);
    let question = Subject::Question { text: "?".to_owned(), details: String::new() };
    assert_eq!(says(&words, &question), Action::Ask);
    assert_eq!(says(&rules, &question), Action::Ask);
    let requester = requester();
    let place = PathBuf::from("/home/me/project");
    let here = [Rule { cwd: glob("/home/*/project"), ..rule("here", Action::Allow) }];
    let subject = tool("Read");
    let facts = Facts { kind: Kind::Tool, subject: &subject, requester: &requester, cwd: Some(&place) };
    assert_eq!(judge(&here, facts).action, Action::Allow);
    assert_eq!(judge(&here, Facts { cwd: None, ..facts }).action, Action::Ask);
}

#[test]
fn actions_have_words() {
    assert_eq!([Action::Allow, Action::Ask, Action::Deny].map(Action::word), ["allow", "ask", "deny"]);
}

#[test]
fn a_letter_comes_in_by_a_rule_that_says_so_and_is_refused_by_any() {
    let letter = crate::sessions::Letter {
        mesh_id: String::new(),
        mesh: "home".to_owned(),
        sender: String::new(),
        from: "ann".to_owned(),
        from_key: String::new(),
        message: String::new(),
        reply_to: None,
        text: "hello".to_owned(),
        verified: true,
    };
    let letter = Subject::Letter { session: "s-1".to_owned(), name: "main".to_owned(), letter };
    let says = |rule: Rule| {
        let requester = Requester { door: crate::sessions::LETTERS.to_owned(), ..Requester::default() };
        judge(&[rule], Facts { kind: Kind::Letter, subject: &letter, requester: &requester, cwd: None }).action
    };
    assert_eq!(says(rule("anything", Action::Allow)), Action::Ask, "it was not made for strangers");
    assert_eq!(says(Rule { requester: glob("mesh"), ..rule("mesh", Action::Allow) }), Action::Allow);
    assert_eq!(says(rule("nothing", Action::Deny)), Action::Deny);
    assert_eq!(says(Rule { requester: glob("other"), ..rule("other", Action::Deny) }), Action::Ask);
}

/// What rules mean, written down without any cleverness: words are literal, or `*`.
#[derive(Clone, Debug)]
struct Plain {
    action: Action,
    session: Option<String>,
    tool: Option<String>,
    words: Option<Vec<String>>,
    further: bool,
    privileged: Option<bool>,
}

impl Plain {
    fn rule(&self, name: usize) -> Rule {
        let mut words = self.words.clone();
        if let (Some(words), true) = (&mut words, self.further) {
            words.push("**".to_owned());
        }
        Rule {
            session: self.session.as_deref().and_then(glob),
            tool: self.tool.as_deref().and_then(glob),
            argv: words.map(|words| words.iter().map(|word| Glob::new(word).unwrap()).collect()),
            privileged: self.privileged,
            ..rule(&name.to_string(), self.action)
        }
    }

    fn meant(&self, session: &str, root: bool, is_tool: bool) -> bool {
        let by_root = match self.privileged {
            Some(wanted) => wanted == root,
            None => self.action != Action::Allow || !root,
        };
        // For commands the session is only what the requester says.
        let by_session = is_tool || self.action != Action::Allow || self.session.is_none();
        by_root && by_session && self.session.as_deref().is_none_or(|wanted| wanted == session)
    }

    fn fits_command(&self, words: &[String]) -> bool {
        let Some(wanted) = &self.words else { return true };
        let long_enough = if self.further { words.len() >= wanted.len() } else { words.len() == wanted.len() };
        long_enough && wanted.iter().zip(words).all(|(wanted, word)| wanted == "*" || wanted == word)
    }
}

fn reference(rules: &[Plain], session: &str, root: bool, stages: &[Vec<String>], tool: Option<&str>) -> Action {
    let rules: Vec<&Plain> = rules.iter().filter(|rule| rule.meant(session, root, tool.is_some())).collect();
    match tool {
        Some(tool) => rules
            .iter()
            .filter(|rule| rule.words.is_none() && rule.tool.as_deref().is_none_or(|wanted| wanted == tool))
            .map(|rule| rule.action)
            .max()
            .unwrap_or(Action::Ask),
        None => stages
            .iter()
            .map(|words| {
                let fitting = rules.iter().filter(|rule| rule.tool.is_none() && rule.fits_command(words));
                fitting.map(|rule| rule.action).max().unwrap_or(Action::Ask)
            })
            .max()
            .unwrap_or(Action::Ask),
    }
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "a b", ""]).prop_map(str::to_owned)
}

fn pattern() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "*", ""]).prop_map(str::to_owned)
}

fn plain() -> impl Strategy<Value = Plain> {
    let action = prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]);
    (
        action,
        prop::option::of(prop::sample::select(vec!["s", "t"])),
        prop::option::weighted(0.2, prop::sample::select(vec!["Read", "Write"])),
        prop::option::of(prop::collection::vec(pattern(), 1..3)),
        any::<bool>(),
        prop::option::of(any::<bool>()),
    )
        .prop_map(|(action, session, tool, words, further, privileged)| {
            // The first word is a program's name: its stars mean something else.
            let words = words.map(|mut words| {
                if words[0] == "*" || words[0].is_empty() {
                    words[0] = "a".to_owned();
                }
                words
            });
            Plain {
                action,
                session: session.map(str::to_owned),
                tool: tool.map(str::to_owned),
                words,
                further,
                privileged,
            }
        })
}

proptest! {
    #[test]
    fn any_rules_mean_what_a_plain_reading_says(
        plain in prop::collection::vec(plain(), 0..6),
        stages in prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]), prop::collection::vec(word(), 0..3)), 0..4),
        tool_name in prop::option::weighted(0.3, prop::sample::select(vec!["Read", "Write"])),
        root in any::<bool>(),
        session in prop::sample::select(vec!["s", "t"]),
    ) {
        let rules: Vec<Rule> = plain.iter().enumerate().map(|(name, plain)| plain.rule(name)).collect();
        let stages: Vec<Vec<String>> = stages
            .into_iter()
            .map(|(program, words)| std::iter::once(program.to_owned()).chain(words).collect())
            .collect();
        let root = root && tool_name.is_none();
        let subject = match tool_name {
            Some(name) => tool(name),
            None => {
                let words: Vec<Vec<&str>> = stages.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
                let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
                pipeline(&words, if root { Privilege::Sudo } else { Privilege::None })
            }
        };
        let requester = Requester { session: session.to_owned(), ..requester() };
        let found = judge(&rules, Facts::of(&subject, &requester));
        let wanted = reference(&plain, session, root, &stages, tool_name);
        prop_assert_eq!(found.action, wanted);
        // The rule that is named says so, or none does and a person is asked.
        match rules.iter().find(|rule| rule.name == found.rule) {
            Some(rule) => prop_assert_eq!(rule.action, found.action),
            None => prop_assert_eq!(found, Verdict { action: Action::Ask, rule: String::new() }),
        }
    }
}
