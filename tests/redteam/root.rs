//! F4 and F6: what root would load from a home, and the password for sudo. A real user, a real sudo, a real terminal.

use std::fs;
use std::path::PathBuf;

use hostel_tests::binary;
use hostel_tests::house::path_text;
use serde_json::{Value, json};

use crate::scene::{ATTACKER, BOTH, Guard};
use crate::user::User;

/// Beside the daemon on the terminal the user has a house with sessions.
const SETTINGS: &str = "[doors.codecast]\nlisten = \"127.0.0.1:0\"\n[doors.mcp]\nenabled = false\n[doors.sudo-proxy]\nenabled = false\n\
    [agents.fake]\nkind = \"claude\"\nmode = \"auto\"\ncommand = [\"CLAUDE\"]\n\
    [agents.bare]\nkind = \"claude\"\nmode = \"auto\"\nguard = \"off\"\ncommand = [\"CLAUDE\"]\n";

/// A user's house with the attacker's programs.
struct House<'a> {
    user: &'a User,
}

impl House<'_> {
    fn hostel(&self, words: &[&str]) -> String {
        let all: Vec<&str> = ["./hostel"].iter().chain(words).copied().collect();
        let output = self.user.command(&all).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    fn path(&self, name: &str) -> PathBuf {
        self.user.home().join(name)
    }

    /// Writes the facts of an attack; the prompt that makes it, and where it leaves what it found.
    fn prompt(&self, function: &str, more: &Value) -> (String, PathBuf) {
        let (facts, result) = (self.path("facts.json"), self.path("result.json"));
        fs::remove_file(&result).ok();
        let mut known = json!({"home": self.user.home(), "signals": self.user.home(), "sudo": self.user.socket()});
        for (key, value) in more.as_object().unwrap() {
            known[key] = value.clone();
        }
        fs::write(&facts, known.to_string()).unwrap();
        let program = self.path("attacker/doors.py");
        let words = [path_text(&program), function, path_text(&facts), path_text(&result)].join(" ");
        (format!("tool python3 {words}"), result)
    }

    fn attack(&self, guard: Guard, function: &str, more: &Value) -> Value {
        let (prompt, result) = self.prompt(function, more);
        self.hostel(&["run", "--agent", guard.agent(), &prompt]);
        hostel_tests::wait::json(&result)
    }
}

#[test]
fn root_loads_nothing_of_the_users_and_sudo_alone_gets_the_password() {
    let program = binary::testchild().with_file_name("fakecli");
    let Some(mut user) = User::start("") else { return };
    for (name, text) in ATTACKER {
        fs::create_dir_all(user.home().join("attacker")).unwrap();
        fs::write(user.home().join("attacker").join(name), text).unwrap();
    }
    let claude = user.home().join("claude");
    fs::copy(&program, &claude).unwrap();
    fs::write(user.home().join(".hostel/hostel.toml"), SETTINGS.replace("CLAUDE", path_text(&claude))).unwrap();
    House { user: &user }.hostel(&["up"]);
    let (witness, stolen) = (user.home().join("root-witness"), user.home().join("stolen"));
    for guard in BOTH {
        let facts = json!({"witness": witness, "stolen": stolen});
        let planted = House { user: &user }.attack(guard, "programs.plant", &facts);
        assert!(planted["crashed"].is_null() && planted[0].is_string(), "{planted}");
        // The agent asks for a harmless command of root's, and the person agrees and types the password.
        let print = "import os; print(os.environ['HOME'], os.environ['USER'])";
        let ask = json!({"argv": ["/usr/bin/python3", "-c", print], "env": {"HOME": user.home()}});
        let (prompt, result) = House { user: &user }.prompt("programs.root_command", &ask);
        let run = user.command(&["./hostel", "run", "-d", "--agent", guard.agent(), &prompt]).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        user.agree();
        let answer = hostel_tests::wait::json(&result);
        // The control: the command ran as root.
        assert_eq!(
            (&answer["status"], &answer["stdout"]),
            (&json!("ok"), &json!("/root root\n")),
            "{guard:?}: {answer}"
        );
        assert!(!witness.exists(), "{guard:?}: code of the user's ran as root: {planted}");
        assert!(!stolen.exists(), "{guard:?}: {:?} {planted}", fs::read_to_string(&stolen));
    }
    House { user: &user }.hostel(&["down"]);
}
