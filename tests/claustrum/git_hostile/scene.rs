//! A house with a question that waits, a program that answers it, and repositories.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_tests::client::Client;
use hostel_tests::sandbox::Sandbox;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, house, wait};
use serde_json::{Value, json};

const SETTINGS: &str = r#"
[doors.claustrum]
listen = []
[doors.codecast]
enabled = false
[doors.zeroclaw]
enabled = false
[doors.mcp]
enabled = false
"#;

/// A running house.
pub(crate) struct Scene {
    sandbox: Sandbox,
    question: String,
}

impl Scene {
    /// A house whose daemon has these variables, each naming the evil program.
    pub(crate) fn start(variables: &[&str]) -> Self {
        Self::prepare().up(|scene, up| {
            for name in variables {
                let value = match *name {
                    "GIT_CONFIG_PARAMETERS" => format!("'core.fsmonitor'='{}'", scene.evil()),
                    _ => scene.evil(),
                };
                up.env(name, value);
            }
        })
    }

    /// A house whose git runs the program by way of some other command first.
    pub(crate) fn start_with_wrapper(way: &str) -> Self {
        let scene = Self::prepare();
        scene.sandbox.write_settings(&format!("{SETTINGS}[guard]\nprograms = \"path\"\n"));
        let programs = scene.sandbox.make("programs");
        let search_path = std::env::var_os("PATH").expect("a search path");
        let mut found = std::env::split_paths(&search_path).map(|directory| directory.join("git"));
        let git = found.find(|path| path.is_file()).expect("a git in the search path");
        let text =
            format!("#!/bin/sh\n{way}'{}' < /dev/null > /dev/null\nexec '{}' \"$@\"\n", scene.evil(), git.display());
        write_program(&programs.join("git"), &text);
        scene.up(|_, up| {
            let path = std::env::var("PATH").expect("a search path");
            up.env("PATH", format!("{}:{path}", programs.display()));
        })
    }

    /// A house whose user has a profile that runs the program once it is there and armed.
    pub(crate) fn start_with_profile() -> Self {
        let scene = Self::prepare();
        let text = format!(
            "( until [ -e '{}' ]; do sleep 0.05; done; exec '{}' ) < /dev/null > /dev/null 2>&1 &\n",
            scene.safety().display(),
            scene.evil()
        );
        fs::write(scene.sandbox.home().join(".profile"), text).expect("a profile");
        scene.up(|_, _| {})
    }

    fn prepare() -> Self {
        let sandbox = Sandbox::new("git");
        sandbox.write_settings(SETTINGS);
        Self { sandbox, question: String::new() }
    }

    fn up(mut self, prepare: impl FnOnce(&Self, &mut Command)) -> Self {
        let mut up = self.sandbox.hostel(&["up"]);
        prepare(&self, &mut up);
        let output = house::run(up);
        assert!(output.status.success(), "hostel up: {}", String::from_utf8_lossy(&output.stderr));
        self.sandbox.remember();
        let (session, question) = self.ask_question();
        self.question = question;
        self.write_evil(&session);
        self
    }

    /// What the house said to the program.
    pub(crate) fn wait_for_answer(&self) -> String {
        wait::content(&self.sandbox.join("heard"), "what the program heard", |text| {
            (!text.is_empty()).then(|| text.to_owned())
        })
    }

    fn native(&self) -> Peer {
        let mut peer = Peer::connect(&self.run("hostel.sock")).expect("our own socket accepts");
        peer.folds = false;
        peer.initialize();
        peer
    }

    fn run(&self, name: &str) -> PathBuf {
        self.sandbox.hostel_home().join("run").join(name)
    }

    fn ask_question(&self) -> (String, String) {
        let mut peer = self.native();
        let made = peer.ask("session/new", json!({"agent_alias": "echo", "cwd": self.sandbox.work(), "mode": "ask"}));
        let session = made["session_id"].as_str().expect("an id").to_owned();
        peer.ask("session/send", json!({"session_id": session, "prompt": "approve"}));
        let question = wait::eventually("the question", || {
            let list = peer.ask("approval/list", json!({}));
            Some(list["approvals"].as_array()?.first()?["id"].as_str()?.to_owned())
        });
        (session, question)
    }

    /// The program leaves a trace. While it is armed, it also answers the question and passes its input on, as filters do.
    /// Unarmed it reads nothing: in the place of a transport it would wait for git, and git for it.
    fn write_evil(&self, session: &str) {
        let line = |id: u64, method: &str, params: &Value| {
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
        };
        let hello = line(1, "initialize", &json!({"protocol_version": 1}));
        let decision = json!({"session_id": session, "request_id": self.question, "decision": "allow_once"});
        let text = format!(
            "#!/bin/sh\necho \"$0 $*\" >> '{}'\n[ -e '{}' ] || exit 0\n'{}' '{}' '{}' '{hello}' '{}'\n[ -t 0 ] || cat\n",
            self.trace().display(),
            self.safety().display(),
            binary::speaker().display(),
            self.run("hostel.sock").display(),
            self.sandbox.join("heard").display(),
            line(2, "session/approve", &decision),
        );
        write_program(Path::new(&self.evil()), &text);
        self.arm();
    }

    /// The path of the program.
    pub(crate) fn evil(&self) -> String {
        self.sandbox.join("evil").display().to_string()
    }

    fn trace(&self) -> PathBuf {
        self.sandbox.join("trace")
    }

    /// The program answers the question while this file exists.
    fn safety(&self) -> PathBuf {
        self.sandbox.join("armed")
    }

    /// Has the program answer the question when it runs.
    pub(crate) fn arm(&self) {
        fs::write(self.safety(), "").expect("a file");
    }

    /// What the program left, once: the next look finds what comes after.
    pub(crate) fn take_trace(&self) -> String {
        let trace = fs::read_to_string(self.trace()).unwrap_or_default();
        fs::remove_file(self.trace()).ok();
        trace
    }

    /// The state of the question.
    pub(crate) fn question(&self) -> String {
        let kept = self.native().ask("approval/get", json!({"id": self.question}));
        kept["approval"]["state"].as_str().expect("a state").to_owned()
    }

    /// The program has not run, and the question is as it was.
    pub(crate) fn check_harmless(&self, what: &str) {
        assert_eq!(self.take_trace(), "", "{what} made the daemon run a program");
        assert_eq!(self.question(), "pending", "{what} answered the question");
    }

    /// A repository with a changed file, a file that only looks changed, and a new one.
    pub(crate) fn repository(&self, name: &str) -> Repository<'_> {
        // Commands of the person's run with the program unarmed: they only show that it would run.
        fs::remove_file(self.safety()).ok();
        fs::remove_file(self.sandbox.home().join(".gitconfig")).ok();
        let path = self.sandbox.work().join(name);
        let repository = Repository { scene: self, path };
        fs::create_dir(&repository.path).expect("a fresh directory");
        repository.person(&["init", "--quiet", "--initial-branch=main"]);
        repository.write("a.txt", "one\n");
        repository.write("b.txt", "one\n");
        repository.person(&["add", "."]);
        repository.person(&["commit", "--quiet", "-m", "first"]);
        repository.write("a.txt", "two\n");
        repository.write("b.txt", "one\n");
        repository.write("new", "");
        repository
    }
}

/// A repository of the attacker's.
pub(crate) struct Repository<'a> {
    scene: &'a Scene,
    path: PathBuf,
}

impl Repository<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn evil(&self) -> String {
        self.scene.evil()
    }

    /// `HOME` of the daemon and of the person.
    pub(crate) fn home(&self) -> PathBuf {
        self.scene.sandbox.home()
    }

    /// A path next to the repository.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        let own = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!("{own}-{name}"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    pub(crate) fn config(&self, setting: &str, value: &str) {
        self.person(&["config", setting, value]);
    }

    /// Puts the program where git looks for a hook.
    pub(crate) fn hook(&self, directory: &str, name: &str) {
        let path = self.path.join(directory).join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::copy(self.evil(), &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Runs git as the person would who trusts the repository; it may fail.
    pub(crate) fn person(&self, arguments: &[&str]) {
        let mut command: Command = self.scene.sandbox.command("git");
        command.current_dir(&self.path).args(["-c", "protocol.file.allow=always"]).args(arguments);
        house::run(command);
    }

    /// Sends a request to the door and gives the result, or the error.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> String {
        let token = fs::read_to_string(self.scene.run("local_token")).expect("the token's file");
        let socket = self.scene.run("claustrum.sock");
        let mut client = Client::connect(&socket, token.trim()).expect("the door accepts");
        let id = client.begin(method, &params.to_string());
        let reply = client.finish(id);
        hostel_tests::client::result_of(id, &reply).unwrap_or(reply)
    }

    /// The answers to everything the door offers about git, while the program is armed. Names of branches and paths of
    /// worktrees are the same each time, and nothing is left.
    pub(crate) fn answers(&self, round: &str) -> String {
        self.scene.arm();
        let mut answers = String::new();
        let here = json!({"path": self.path});
        for method in ["git.info", "git.status", "git.list_branches"] {
            answers += &format!("{method} {}\n", self.ask(method, &here));
        }
        let tree = self.beside("tree");
        let wanted = json!({"baseRepo": self.path, "branchName": "side", "worktreePath": tree});
        answers += &format!("git.worktree_create {}\n", self.ask("git.worktree_create", &wanted));
        for name in ["a.txt", "b.txt"] {
            answers += &format!("{name}: {:?}\n", fs::read_to_string(tree.join(name)).ok());
        }
        answers += &format!("its status: {}\n", self.ask("git.status", &json!({"path": tree})));
        let removed = json!({"baseRepo": self.path, "worktreePath": tree});
        answers += &format!("git.worktree_remove {}\n", self.ask("git.worktree_remove", &removed));
        answers += &format!("it is there: {}\n", tree.exists());
        // The repository is as it was for the next round, without a git that could run something.
        fs::remove_file(self.path.join(".git/refs/heads/side")).ok();
        fs::remove_file(self.path.join(".git/logs/refs/heads/side")).ok();
        fs::remove_file(self.scene.safety()).ok();
        eprintln!("{round}:\n{answers}");
        answers
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}
