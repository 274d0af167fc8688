//! sudo's password, typed at the terminal of `sudo-proxy`: a real user, a real sudo, a real terminal.

use std::fs;

use serde_json::json;

use crate::user::{PASSWORD, QUESTION, User};

#[test]
fn the_password_for_sudo_is_typed_where_it_was_approved() {
    let Some(mut user) = User::start("") else { return };
    let asked = user.ask("root", &["id", "-u"], &json!({}));
    user.see(QUESTION);
    user.press("y");
    let shown = user.see("Password: ");
    assert!(shown.contains("sudo needs your password for: id -u"), "{shown}");
    user.press("wrong\r");
    user.see("Password: ");
    user.press(&format!("{}x\x7f{}\r", &PASSWORD[..10], &PASSWORD[10..]));
    let answer = asked.answer();
    assert_eq!((&answer["status"], &answer["stdout"]), (&json!("ok"), &json!("0\n")), "{answer}");
    let shown = user.terminal.painted(0);
    assert!(!shown.contains("tell") && !shown.contains("wrong"), "{shown}");
    // Whoever gives none gets nothing run, and sudo asks for each command anew.
    let asked = user.ask("none", &["id", "-u"], &json!({}));
    user.see(QUESTION);
    user.press("y");
    user.see("Password: ");
    user.press("\r");
    user.see("No password was given");
    let answer = asked.answer();
    assert_eq!((&answer["status"], &answer["stdout"]), (&json!("ok"), &json!("")), "{answer}");
    assert_ne!(answer["stages"][0]["exit_code"], 0);
}

/// Whoever can write the run directory of the house, or knows the prompt of an earlier sudo, does not get the password.
#[test]
fn only_sudo_gets_the_password() {
    let Some(mut user) = User::start("") else { return };
    let stolen = user.home().join("stolen");
    let thief = format!("#!/bin/sh\necho asked >>{0}\ncat >>{0}\n", stolen.display());
    let thief = user.program("thief", &thief);
    // Where the program that asked for the password used to lie, and where sudo might look for one.
    let run = user.house().join("run");
    let plant = format!(
        "cp {thief} {run}/hostel-askpass; ln -s {thief} {run}/askpass; printf 'Path askpass {thief}\\n' >.sudo.conf; true",
        run = run.display()
    );
    assert!(user.command(&["sh", "-c", &plant]).status().unwrap().success());
    let asked = user.ask("first", &["cat"], &json!({}));
    user.agree();
    let answer = asked.answer();
    assert_eq!(
        (&answer["status"], &answer["stdout"]),
        (&json!("ok"), &json!("")),
        "the command reads nothing: {answer}"
    );
    assert!(!stolen.exists(), "{:?}", fs::read_to_string(&stolen));
    // The prompt of sudo stands in the journal, which the user's processes can read. A command that prints it gets
    // nothing: sudo has started it.
    let pipe = user.home().join("pipe");
    assert!(user.command(&["mkfifo", pipe.to_str().unwrap()]).status().unwrap().success());
    let script = format!("cat {} >&2; cat", pipe.display());
    let asked = user.ask("second", &["sh", "-c", &script], &json!({}));
    user.see(QUESTION);
    user.press("y");
    user.see("anything else denies: ");
    user.press("changeable\r");
    user.see("Password: ");
    user.press(&format!("{PASSWORD}\r"));
    let forge = format!(
        "for file in {}/journal/*; do grep -ao 'hostel-sudo-[0-9a-f]*' \"$file\"; done | sort -u | \
         while read -r line; do printf '[%s]' \"$line\"; done >{}",
        user.house().display(),
        pipe.display()
    );
    assert!(user.command(&["sh", "-c", &forge]).status().unwrap().success());
    let answer = asked.answer();
    assert_eq!((&answer["status"], &answer["stdout"]), (&json!("ok"), &json!("")), "{answer}");
    assert!(!user.unseen().contains("Password: "), "{}", user.unseen());
    assert!(!stolen.exists());
}
