//! Agent CLIs for tests: the played ones, which are always there, and the real ones against a model that is none.
//!
//! [`fake_clis`] makes a folder for the PATH in which `fakecli` answers to every CLI's name. For the real programs
//! [`installed`] says where they are, [`FakeModel`] is the model they talk to, and [`environment`] points one at the
//! other. All they keep lies below the directory the test gives; neither the network nor a home directory is touched.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{binary, wait};

/// The programs there are.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cli {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

impl Cli {
    /// All of them.
    pub const ALL: [Cli; 4] = [Cli::Claude, Cli::Codex, Cli::Gemini, Cli::Opencode];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Cli::Claude => "claude",
            Cli::Codex => "codex",
            Cli::Gemini => "gemini",
            Cli::Opencode => "opencode",
        }
    }
}

/// The folder with the real programs: `bin` in the one `HOSTEL_AGENTS` names, where `tests/agents/install` put them.
///
/// # Errors
/// How to get them, if they are not there.
pub fn installed() -> Result<PathBuf, String> {
    let folder = env::var_os("HOSTEL_AGENTS").ok_or("HOSTEL_AGENTS is not set; scripts/test --agents sets it")?;
    let bin = PathBuf::from(folder).join("bin");
    match Cli::ALL.iter().find(|cli| !bin.join(cli.name()).exists()) {
        Some(cli) => Err(format!("there is no {} in {}; run tests/agents/install", cli.name(), bin.display())),
        None => Ok(bin),
    }
}

/// Makes `folder` and in it links by which `fakecli` plays every CLI, and a plain ACP agent called `acp-agent`.
///
/// # Panics
/// If `fakecli` has not been built or the folder cannot be made.
pub fn fake_clis(folder: &Path) {
    let program = binary::testchild().with_file_name("fakecli");
    assert!(
        program.is_file(),
        "{} does not exist; build it first: cargo build -p hostel-tests --bins",
        program.display()
    );
    fs::create_dir_all(folder).expect("a folder for the links");
    for name in Cli::ALL.iter().map(|cli| cli.name()).chain(["acp-agent"]) {
        symlink(&program, folder.join(name)).expect("a fresh link");
    }
}

/// What a real CLI needs to talk to the model at `port` and to keep everything below `scratch`: writes its
/// configuration there and returns its variables. Those of different CLIs go together.
///
/// The CLIs' own means to change things later (arguments, `OPENCODE_PERMISSION`, `GEMINI_MODEL`, …) are left alone:
/// they belong to the host under test.
///
/// # Panics
/// If the configuration cannot be written.
pub fn environment(cli: Cli, port: u16, scratch: &Path) -> Vec<(String, String)> {
    let home = scratch.join(cli.name());
    let at = |part: &str| home.join(part).display().to_string();
    let url = format!("http://127.0.0.1:{port}");
    let write = |path: &str, text: &str| {
        let path = home.join(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder for the configuration");
        fs::write(path, text).expect("the configuration can be written");
    };
    let own: Vec<(&str, String)> = match cli {
        Cli::Claude => vec![
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "none".to_owned()),
            ("CLAUDE_CONFIG_DIR", at("config")),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
        ],
        Cli::Codex => {
            write("home/config.toml", &codex_configuration(&url));
            vec![("CODEX_HOME", at("home")), ("FAKE_MODEL_KEY", "none".to_owned())]
        }
        Cli::Gemini => {
            write("home/.gemini/settings.json", &gemini_settings().to_string());
            vec![
                ("GEMINI_CLI_HOME", at("home")),
                ("GEMINI_API_KEY", "none".to_owned()),
                ("GOOGLE_GEMINI_BASE_URL", url),
                // Without this it starts itself a second time.
                ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
            ]
        }
        Cli::Opencode => {
            write("config/opencode/opencode.json", &opencode_configuration(&url).to_string());
            let off = ["MODELS_FETCH", "AUTOUPDATE", "SHARE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"];
            let off = off.map(|what| (format!("OPENCODE_DISABLE_{what}"), "1".to_owned()));
            let kept = ["DATA", "CONFIG", "STATE", "CACHE"];
            let kept = kept.map(|what| (format!("XDG_{what}_HOME"), at(&what.to_lowercase())));
            // On its first start it would fetch a package.
            let offline = [("npm_config_offline".to_owned(), "true".to_owned())];
            return off.into_iter().chain(kept).chain(offline).collect();
        }
    };
    own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `gpt-5.5` is the one model of its list that gets an ordinary shell tool.
fn codex_configuration(url: &str) -> String {
    format!(
        r#"model = "gpt-5.5"
model_provider = "fake"
check_for_update_on_startup = false

[features]
plugins = false

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_MODEL_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"#
    )
}

fn gemini_settings() -> Value {
    json!({
        // With a base URL but without this it refuses to start.
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"name": "gemini-2.5-pro"},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 2},
    })
}

fn opencode_configuration(url: &str) -> Value {
    let model = json!({
        "name": "Fake", "tool_call": true, "reasoning": true, "limit": {"context": 200_000, "output": 32_000},
        "cost": {"input": 1, "output": 2},
    });
    let options = json!({"baseURL": format!("{url}/v1"), "apiKey": "none"});
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "fake", "options": options,
        "models": {"fake-model": model, "other-model": model},
    });
    json!({
        "autoupdate": false, "share": "disabled", "model": "fake/fake-model", "small_model": "fake/fake-model",
        "enabled_providers": ["fake"], "provider": {"fake": provider},
    })
}

/// A running `tests/agents/fake_model.py`; ends with the test, however that ends.
#[derive(Debug)]
pub struct FakeModel {
    child: Child,
    port: u16,
    log: PathBuf,
}

/// A request the fake model got.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The last thing the user typed, its beginning if it is long.
    pub prompt: String,
    /// The length of all of it, in characters.
    pub length: u64,
    /// The model that was asked for.
    pub model: String,
    /// The CLI asked on its own account: a title, a choice of model.
    pub errand: bool,
    /// `complete`, `refused`, `dropped` or `client went away`; None while it is being answered.
    pub outcome: Option<String>,
}

impl FakeModel {
    /// Starts one; its log goes into `folder`.
    ///
    /// # Panics
    /// If Python 3 is missing or it does not say its port.
    pub fn start(folder: &Path) -> Self {
        let log = folder.join("model.jsonl");
        let mut child = Command::new("python3")
            .arg(binary::repository().join("tests/agents/fake_model.py"))
            .arg("--until-eof")
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 can be started");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the fake model says its port");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("no port but {line:?}"));
        Self { child, port, log }
    }

    /// Where it listens on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything it was asked so far, in order.
    ///
    /// # Panics
    /// If its log is no log.
    pub fn asked(&self) -> Vec<Asked> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let mut asked: Vec<Asked> = Vec::new();
        // A line that is being written has no end yet.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line: Value = serde_json::from_str(line).expect("a line of the log is JSON");
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            if let Some(number) = line["answer"].as_u64() {
                let index = usize::try_from(number).expect("a small number") - 1;
                asked[index].outcome = Some(text("outcome"));
            } else {
                asked.push(Asked {
                    prompt: text("prompt"),
                    length: line["length"].as_u64().unwrap_or(0),
                    model: text("model"),
                    errand: line["errand"] == true,
                    outcome: None,
                });
            }
        }
        asked
    }

    /// Waits until a request with this prompt has come to this end.
    ///
    /// # Panics
    /// If it does not within the usual limit.
    pub fn wait_for(&self, prompt: &str, outcome: &str) {
        wait::eventually(&format!("the model to see {prompt:?} end as {outcome:?}"), || {
            let came = |asked: &Asked| asked.prompt == prompt && asked.outcome.as_deref() == Some(outcome);
            let asked = self.asked();
            if asked.iter().any(|asked| !asked.errand && came(asked)) { Ok(()) } else { Err(format!("{asked:?}")) }
        });
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
