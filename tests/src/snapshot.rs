//! Snapshots of what commands print, kept as readable text files in the repository.
//!
//! A [`Recorder`] collects the runs of one test, one file per command. [`Recorder::finish`] replaces what varies by
//! placeholders (see [`normalise`]) and compares the result with the files, or writes them if `HOSTEL_UPDATE` is set.
//! A snapshot without a file and a file without a snapshot are failures, so that neither is forgotten.
//!
//! Nothing is normalised before the end of the test: the table of `hostel ps` shows the first twelve digits of an id,
//! and only the JSON of a later command shows all of it.

mod diff;
mod normalise;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use normalise::Normaliser;

/// The command that writes all snapshots of the program `house` anew.
pub const UPDATE_COMMAND: &str = "HOSTEL_UPDATE=1 scripts/run-tests --test house snapshots::";

/// One command that was run.
#[derive(Debug)]
struct Run {
    command: String,
    code: Option<i32>,
    out: String,
    err: String,
}

#[derive(Debug, Default)]
struct File {
    runs: Vec<Run>,
    hide_sizes: bool,
}

/// The snapshots of one test: all files of the directory whose names begin with the area.
#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
    area: String,
    literals: Vec<(String, String)>,
    files: BTreeMap<String, File>,
}

impl Recorder {
    /// Snapshots in the files `AREA-….txt` of a directory.
    pub fn new(directory: PathBuf, area: &str) -> Self {
        Self { directory, area: area.to_owned(), literals: Vec::new(), files: BTreeMap::new() }
    }

    /// Shows `placeholder` wherever `text` is printed.
    pub fn replace(&mut self, text: impl Into<String>, placeholder: &str) {
        self.literals.push((text.into(), placeholder.to_owned()));
        // A path is replaced before the directory it lies in.
        self.literals.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    }

    /// Adds a run of `hostel WORDS…` to the file `AREA-NAME.txt`.
    pub fn record(&mut self, name: &str, words: &[&str], output: &Output) {
        let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        self.files.entry(name.to_owned()).or_default().runs.push(Run {
            command: format!("hostel {}", quoted.join(" ")).trim_end().to_owned(),
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }

    /// Shows `<size>` for every size of a file: sizes on disk depend on the file system.
    pub fn hide_sizes(&mut self, name: &str) {
        self.files.entry(name.to_owned()).or_default().hide_sizes = true;
    }

    /// Compares with the files, or writes them if `HOSTEL_UPDATE` is set.
    ///
    /// # Panics
    /// If something differs, with the differing lines.
    pub fn finish(self) {
        self.settle(env::var_os("HOSTEL_UPDATE").is_some());
    }

    fn settle(&self, update: bool) {
        let rendered = self.render();
        let mut problems = Vec::new();
        for (name, text) in &rendered {
            let path = self.directory.join(name);
            let kept = fs::read_to_string(&path).unwrap_or_default();
            if kept == *text {
                continue;
            }
            if update {
                fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
                eprintln!("updated {}", path.display());
            } else if kept.is_empty() {
                problems.push(format!("{} does not exist; the output is:\n{text}", path.display()));
            } else {
                problems.push(format!("{} differs:\n{}", path.display(), diff::lines(&kept, text)));
            }
        }
        for name in self.kept() {
            if rendered.contains_key(&name) {
                continue;
            }
            let path = self.directory.join(&name);
            if update {
                fs::remove_file(&path).unwrap_or_else(|error| panic!("cannot remove {}: {error}", path.display()));
                eprintln!("removed {}", path.display());
            } else {
                problems.push(format!("{} belongs to no snapshot of this test", path.display()));
            }
        }
        assert!(
            problems.is_empty(),
            "{}\n\nIf the new output is right, keep it with:\n  {UPDATE_COMMAND}\n",
            problems.join("\n\n")
        );
    }

    /// The files of this area that exist.
    fn kept(&self) -> Vec<String> {
        let start = format!("{}-", self.area);
        names(&self.directory).into_iter().filter(|name| name.starts_with(&start)).collect()
    }

    fn render(&self) -> BTreeMap<String, String> {
        let all = self.files.values().flat_map(|file| &file.runs).flat_map(|run| [&run.out, &run.err]);
        let ids = normalise::find_ids(all.map(String::as_str));
        let mut rendered = BTreeMap::new();
        for (name, file) in &self.files {
            let mut normaliser = Normaliser::new(&self.literals, &ids, file.hide_sizes);
            let runs: Vec<String> = file.runs.iter().map(|run| show(run, &mut normaliser)).collect();
            rendered.insert(format!("{}-{name}.txt", self.area), runs.join("\n"));
        }
        rendered
    }
}

/// The names of the files in a directory of snapshots.
///
/// # Panics
/// If there is no such directory.
pub fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("a directory can be read").file_name().to_string_lossy().into_owned()).collect()
}

fn show(run: &Run, normaliser: &mut Normaliser<'_>) -> String {
    let code = run.code.map_or_else(|| "ended by a signal".to_owned(), |code| format!("exit code {code}"));
    let mut text = format!("$ {}\n# {code}\n", normaliser.text(&run.command));
    for (title, output) in [("stdout", &run.out), ("stderr", &run.err)] {
        if output.is_empty() {
            continue;
        }
        text.push_str(&format!("# {title}\n{}", normaliser.output(output)));
        if !output.ends_with('\n') {
            text.push_str("\n# (no line end)\n");
        }
    }
    text
}

/// A word as it would be typed in a shell.
fn quote(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=,%+@#".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn output(code: i32, out: &str, err: &str) -> Output {
        Output { status: ExitStatus::from_raw(code << 8), stdout: out.into(), stderr: err.into() }
    }

    #[test]
    fn a_file_shows_commands_codes_and_streams() {
        let mut recorder = Recorder::new(PathBuf::from("/nowhere"), "area");
        recorder.replace("/tmp/x", "<root>");
        recorder.record("ps", &["ps", "a b"], &output(0, "one\n", ""));
        recorder.record("ps", &["--json", "ps"], &output(3, "", "in /tmp/x/y"));
        let rendered = recorder.render();
        let wanted = "$ hostel ps 'a b'\n# exit code 0\n# stdout\none\n\n$ hostel --json ps\n# exit code 3\n# stderr\n\
                      in <root>/y\n# (no line end)\n";
        assert_eq!(rendered.get("area-ps.txt").map(String::as_str), Some(wanted));
    }

    #[test]
    fn a_missing_and_an_orphaned_file_are_problems() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("area-old.txt"), "old").unwrap();
        fs::write(directory.path().join("other-area.txt"), "not ours").unwrap();
        let mut recorder = Recorder::new(directory.path().to_owned(), "area");
        recorder.record("new", &["ps"], &output(0, "one\n", ""));
        let failure = std::panic::catch_unwind(|| recorder.settle(false)).expect_err("both are problems");
        let message = failure.downcast_ref::<String>().expect("a message");
        assert!(message.contains("area-new.txt does not exist"), "{message}");
        assert!(message.contains("area-old.txt belongs to no snapshot"), "{message}");
        assert!(!message.contains("other-area"), "{message}");
        assert!(message.contains(UPDATE_COMMAND), "{message}");

        recorder.settle(true);
        recorder.settle(false);
        assert_eq!(names(directory.path()).len(), 2);
    }
}
