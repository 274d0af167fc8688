//! Files that processes inside a house name: a mesh daemon reads and writes for them what they could read and write
//! themselves, below their own working directory, and nothing else.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

use crate::session_mail::House;

/// Asks what a file lists, as a hosted process or not, and writes down the answers.
const ASKER: &str = r#"
import ctypes, http.client, json, os, resource, socket, sys, threading, time
plan = json.load(open(sys.argv[1]))
if plan["inside"]:
    resource.setrlimit(10, (1 << 40, 1 << 40))
token = plan["token"]
while not token:
    try:
        token = open(os.environ["CLAUDEMESH_IPC_TOKEN_FILE"]).read().strip()
    except OSError:
        time.sleep(0.05)
def ask(request, body):
    client = http.client.HTTPConnection("localhost")
    client.sock = socket.socket(socket.AF_UNIX)
    client.sock.settimeout(60)
    client.sock.connect(plan["socket"])
    client.request(*request.split(" "), json.dumps(body), {"User-Agent": "asker", "Authorization": "ClaudeMesh-Session " + token})
    answer = client.getresponse()
    return [answer.status, json.loads(answer.read())]
if "swap" in plan:
    one, other = [name.encode() for name in plan["swap"]]
    libc = ctypes.CDLL(None, use_errno=True)
    until = time.time() + 2
    def swap():
        while time.time() < until:
            libc.renameat2(-100, one, -100, other, 2)
            time.sleep(0.0003)
    thread = threading.Thread(target=swap)
    thread.start()
    answers = []
    while time.time() < until:
        answers += [ask(*request) for request in plan["requests"]]
    thread.join()
else:
    answers = [ask(*request) for request in plan["requests"]]
open(sys.argv[2] + ".draft", "w").write(json.dumps(answers))
os.rename(sys.argv[2] + ".draft", sys.argv[2])
"#;

const TOKEN: &str = "abababababababababababababababababababababababababababababababab";

fn member(lab: &Lab, name: &str) -> Client {
    lab.host(name).client(Transport::Socket)
}

/// The host whose agents are hostile, with files that are not theirs.
fn start() -> (Lab, String) {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let home = lab.host("alice").home();
    for (name, text) in [
        ("project/note", "a note"),
        ("project/secret/key", "a secret"),
        ("project/fixed/file", "a fixed file"),
        (".codecast/tokens.yaml", "tokens"),
        (".ssh/authorized_keys", "keys"),
        ("../hostel/decoy", "of the house"),
    ] {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink(home.join(".codecast/tokens.yaml"), home.join("project/link")).unwrap();
    std::os::unix::fs::symlink(home.join(".codecast"), home.join("project/linked")).unwrap();
    fs::write(house(lab.host("alice")).join("hostel.toml"), settings(&home)).unwrap();
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    let (file, bob) = (lab.path().join("sent"), member(&lab, "bob"));
    fs::write(&file, "of bob").unwrap();
    let shared = bob.post("/v1/file/share", &json!({"path": file}));
    assert_eq!(shared.status, 200, "{}", shared.text());
    let id = shared.json()["fileId"].as_str().unwrap().to_owned();
    wait::until_true(wait::LIMIT, "the file to be listed", || {
        let listed = member(&lab, "alice").get_json("/v1/file/list");
        listed["files"].as_array().is_some_and(|files| !files.is_empty())
    });
    (lab, id)
}

fn house(host: &Host) -> PathBuf {
    host.home().parent().unwrap().join("hostel")
}

fn settings(home: &Path) -> String {
    let (secret, fixed, ssh) = (home.join("project/secret"), home.join("project/fixed"), home.join(".ssh"));
    format!(
        "[guard]\nhide = [\"{}\"]\nread_only = [\"{}\", \"{}\"]\n[sessions]\nmesh = \"on\"\n[agents.rogue]\nkind = \"claude\"\n\
         command = [\"sh\", \"-c\", \"python3 asker.py plan.json answers.json; cat > /dev/null\"]\n",
        secret.display(),
        fixed.display(),
        ssh.display()
    )
}

fn share(path: impl AsRef<Path>) -> Value {
    json!(["POST /v1/file/share", {"path": path.as_ref()}])
}

fn get(id: &str, out: impl AsRef<Path>) -> Value {
    json!([format!("GET /v1/file/get?id={id}&out={}", out.as_ref().display()), {}])
}

/// Asks with the token of a session, working in `directory`.
fn ask(host: &Host, directory: &Path, mut plan: Value) -> Vec<(u64, Value)> {
    let [script, words, answers] = ["asker.py", "plan.json", "answers.json"].map(|name| host.home().join(name));
    fs::write(&script, ASKER).unwrap();
    plan["socket"] = json!(host.directory().join("sock"));
    plan["token"] = json!(TOKEN);
    fs::write(&words, plan.to_string()).unwrap();
    let mut command = Command::new("python3");
    host.set_environment(&mut command);
    command.args([&script, &words, &answers]).current_dir(directory).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read(&answers)
}

fn read(answers: &Path) -> Vec<(u64, Value)> {
    serde_json::from_slice(&fs::read(answers).unwrap()).unwrap()
}

fn register(host: &Host) {
    let session = json!({"token": TOKEN, "session_id": "s", "display_name": "s", "pid": std::process::id()});
    let answer = host.client(Transport::Socket).post("/v1/sessions/register", &session);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn assert_refused(answers: &[(u64, Value)], requests: &[Value]) {
    assert_eq!(answers.len(), requests.len());
    for ((status, answer), request) in answers.iter().zip(requests) {
        assert_eq!((*status, &answer["error"]), (403, &json!("forbidden")), "{request}: {answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains("the owner of the house does it from outside with `hostel mesh file"), "{detail}");
    }
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

/// Half-written files below a directory.
fn parts(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = |path: PathBuf| match path.is_dir() && !path.is_symlink() {
        true => parts(&path),
        false => vec![path],
    };
    entries.flat_map(below).filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
}

#[test]
fn a_session_has_files_shared_and_written_only_below_its_own_directory() {
    let (lab, id) = start();
    let alice = lab.host("alice");
    let (home, project) = (alice.home(), alice.home().join("project"));
    register(alice);
    let environ = format!("/proc/{}/environ", alice.identity().pid);
    let outside = [".codecast/tokens.yaml", ".ssh/authorized_keys", ".claudemesh/config.json", "../hostel/decoy"];
    let own = ["link", "linked/tokens.yaml", "secret/key", "secret/none", "fixed/file", "../.ssh/authorized_keys"];
    let mut refused: Vec<Value> =
        outside.iter().flat_map(|name| [share(home.join(name)), get(&id, home.join(name))]).collect();
    refused.extend(own.iter().map(|name| share(project.join(name))));
    let written = ["linked/new", "secret/new", "fixed/file", "fixed/new", "../new"];
    refused.extend(written.iter().map(|name| get(&id, project.join(name))));
    refused.extend([share(&environ), share("/etc/hostname"), get(&id, "/tmp/never")]);
    // Whoever works above them gets no further.
    let above = ["project/secret/key", "project/link", "project/fixed/file", outside[0], outside[1], outside[2]];
    let above: Vec<Value> = above.iter().flat_map(|name| [share(home.join(name)), get(&id, home.join(name))]).collect();
    let above: Vec<Value> = above.into_iter().filter(|one| *one != get(&id, home.join("project/link"))).collect();
    for inside in [true, false] {
        assert_refused(&ask(alice, &project, json!({"inside": inside, "requests": refused})), &refused);
        assert_refused(&ask(alice, &home, json!({"inside": inside, "requests": above})), &above);
        let own = [share(&environ), share(house(alice).join("decoy"))];
        assert_refused(&ask(alice, Path::new("/"), json!({"inside": inside, "requests": own})), &own);
        // Its own files.
        let got = project.join(format!("got-{inside}"));
        let good = [share(project.join("note")), get(&id, &got), get(&id, &got), share(project.join("none"))];
        let answers = ask(alice, &project, json!({"inside": inside, "requests": good}));
        assert_eq!(answers.iter().map(|answer| answer.0).collect::<Vec<_>>(), [200, 200, 200, 404], "{answers:?}");
        assert_eq!((&answers[0].1["size"], &answers[1].1["savedTo"]), (&json!(6), &json!(got)));
        assert_eq!(text(got), "of bob");
    }
    assert_eq!(text(home.join(".ssh/authorized_keys")), "keys");
    assert_eq!(text(project.join("fixed/file")), "a fixed file");
    assert_eq!(text(home.join(".codecast/tokens.yaml")), "tokens");
    assert!(!alice.logged("ipc_insider_refused").is_empty());
    assert_eq!(parts(lab.path()), Vec::<PathBuf>::new());
    // The owner has everything.
    let owner = member(&lab, "alice");
    for name in [".codecast/tokens.yaml", "project/link", "project/linked/tokens.yaml", "../hostel/decoy"] {
        let answer = owner.post("/v1/file/share", &json!({"path": home.join(name)}));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    }
    for name in [".ssh/authorized_keys", "project/linked/new", "project/secret/new", "project/fixed/new"] {
        let answer = owner.get(&format!("/v1/file/get?id={id}&out={}", home.join(name).display()));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(text(home.join(name)), "of bob");
    }
}

#[test]
fn swapping_a_directory_and_a_link_reaches_no_other_file() {
    let (lab, id) = start();
    let alice = lab.host("alice");
    let project = alice.home().join("project");
    register(alice);
    let (real, link) = (project.join("real"), project.join("swapped"));
    fs::create_dir(&real).unwrap();
    fs::write(real.join("decoy"), "x").unwrap();
    std::os::unix::fs::symlink(house(alice), &link).unwrap();
    let requests = [share(real.join("decoy")), get(&id, real.join("planted"))];
    let plan = json!({"inside": true, "swap": [real, link], "requests": requests});
    let answers = ask(alice, &project, plan);
    let good: Vec<&Value> = answers.iter().filter(|(status, _)| *status == 200).map(|(_, answer)| answer).collect();
    assert!(!good.is_empty() && answers.iter().any(|(status, _)| *status == 403), "{answers:?}");
    // One byte is that of the decoy; six are what was fetched.
    assert!(good.iter().all(|answer| answer["size"] == if answer["savedTo"].is_null() { 1 } else { 6 }), "{good:?}");
    assert!(!house(alice).join("planted").exists());
    assert_eq!(parts(lab.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_guarded_agent_gets_no_more_files_than_it_sees() {
    let (lab, id) = start();
    let alice = lab.host("alice");
    let (home, project) = (alice.home(), alice.home().join("project"));
    let refused = [
        share(home.join(".codecast/tokens.yaml")),
        share(project.join("link")),
        share(project.join("secret/key")),
        get(&id, home.join(".ssh/authorized_keys")),
        get(&id, home.join(".codecast/new")),
        get(&id, project.join("fixed/new")),
    ];
    let good = [share(project.join("note")), get(&id, project.join("got"))];
    let requests: Vec<Value> = refused.iter().chain(&good).cloned().collect();
    let plan = json!({"inside": false, "token": "", "socket": alice.directory().join("sock"), "requests": requests});
    fs::write(home.join("plan.json"), plan.to_string()).unwrap();
    fs::write(home.join("asker.py"), ASKER).unwrap();
    let house = House::start(alice, &settings(&home));
    let made = house.peer().ask("session/new", json!({"agent_alias": "rogue", "name": "rogue", "cwd": home}));
    house.peer().ask("session/send", json!({"session_id": made["session_id"], "prompt": "go"}));
    let answers = home.join("answers.json");
    wait::until_true(wait::LIMIT, "the agent to have asked", || answers.exists());
    let answers = read(&answers);
    let (bad, fine) = answers.split_at(refused.len());
    assert_refused(bad, &refused);
    assert!(fine.iter().all(|(status, _)| *status == 200), "{fine:?}");
    assert_eq!(text(project.join("got")), "of bob");
    assert_eq!(text(home.join(".ssh/authorized_keys")), "keys");
    assert!(!home.join(".codecast/new").exists());
}
