//! `launch`: an agent of the house as a session of the member, for as long as this command runs.
//!
//! Invariant: the session is known to the mesh before its agent starts, and the agent's environment leads every verb and
//! every tool inside to it. However this command ends, the session ends: by our own word where we can still speak, else
//! because its process is gone, which the daemon notices. What is inside never becomes the member.

mod arrivals;
mod letters;
mod registration;
mod talk;
mod token;
mod typing;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use super::join;
use crate::config::Settings;
use crate::conversation::start::fitting;
use crate::houses::House;
use crate::mcp;
use crate::mesh::Desk;
use crate::mesh::cli::Launch;
use crate::mesh::client::Client;
use crate::mesh::daemon;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::mesh::speaker;
use crate::mesh::wait;
use crate::paths::HouseDir;
use crate::text;
use crate::ui::Ui;
use arrivals::Arrivals;
use letters::Told;
use registration::Registration;
use talk::Talk;
use token::Token;
use typing::Typed;
use typing::Typing;

/// What the contract's exit code for a person who left is.
const CANCELLED: u8 = 1;

/// Variables of ours that say where meshes are; a house that was started elsewhere may not have them.
const PLACES: [&str; 2] = ["CLAUDEMESH_CONFIG_DIR", "CLAUDEMESH_DAEMON_DIR"];

/// How it came to an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// There is nothing more to ask.
    Done,
    /// A person had enough of the turn, or the system of the session.
    Cancelled,
    /// A person had enough of the session.
    Left,
    /// The agent did not do what was asked.
    Failed,
    /// Somebody else closed the session.
    Closed,
}

pub(crate) fn run(desk: &Desk<'_>, arguments: &Launch) -> Result<ExitCode, Failure> {
    match wait(launch(desk, arguments))? {
        End::Done | End::Closed => Ok(ExitCode::SUCCESS),
        End::Cancelled | End::Left => Ok(ExitCode::from(CANCELLED)),
        End::Failed => Err(Failure::new(Code::Internal, "turn_failed", "the agent's turn failed")),
    }
}

async fn launch(desk: &Desk<'_>, arguments: &Launch) -> Result<End, Failure> {
    let joined = desk.host.joined(desk.mesh.as_deref())?;
    let (mesh, first) = (joined.slug.as_str(), first_prompt(arguments)?);
    let cwd = directory(arguments.cwd.as_deref())?;
    let leaving = Leaving::new()?;
    let settings = Settings::load(&HouseDir::at(&desk.home).config_file(), &[])?;
    let may_start = join::may_start(arguments.no_start);
    let client = mesh_daemon(desk, mesh, may_start).await?;
    let house = house(desk, may_start).await?;
    let agent = talk::agent(&house, arguments.agent.as_deref()).await?;
    let name = name(arguments.name.as_deref(), &agent)?;

    let token = Token::make(&house.dir.launches(), &name)?;
    let registration = Registration::begin(client, &token, mesh, &name, &cwd, arguments).await?;
    let environment = environment(&token, mesh, &name);
    let told = async {
        let talk = Talk::begin(house, &settings, &agent, &name, &cwd, arguments, &environment).await?;
        greet(desk, &talk, mesh, &registration, &agent, arguments.print.is_some())?;
        let mut watched = std::pin::pin!(registration.keep(desk.ui));
        let end = tokio::select! {
            end = converse(desk, &talk, &registration, first, arguments.print.is_some()) => end,
            () = leaving.told() => Ok(End::Cancelled),
            never = &mut watched => match never {},
        };
        // The history stays with the house; the agent ends with us.
        talk.close().await;
        end
    };
    let end = told.await;
    registration.end().await;
    end
}

/// Turn after turn, until there is nothing more to ask.
async fn converse(
    desk: &Desk<'_>,
    talk: &Talk,
    registration: &Registration,
    first: Option<String>,
    only: bool,
) -> Result<End, Failure> {
    let mut end = End::Done;
    let mut typing = Typing::new();
    let mut letters = talk.letters();
    let mut arrivals = match typing.is_terminal() && !only && !desk.ui.json() {
        true => Some(Arrivals::begin(registration.speaking()).await),
        false => None,
    };
    if let Some(prompt) = first {
        end = talk.turn(desk.ui, &prompt, &mut letters).await?;
        if only {
            return Ok(end);
        }
    }
    loop {
        if matches!(end, End::Closed | End::Left) {
            return Ok(end);
        }
        let typed = tokio::select! {
            typed = typing.next() => typed?,
            told = letters.next() => {
                letters.rest();
                if let Some(over) = told_of(desk, talk, told, typing.is_terminal()).await? {
                    return Ok(over);
                }
                continue;
            }
            never = shown(&mut arrivals, desk.ui) => match never {},
        };
        letters.rest();
        let prompt = match typed {
            Typed::Line(line) if line.trim().is_empty() => continue,
            Typed::Line(line) if matches!(line.trim(), "/quit" | "/exit") => return Ok(End::Done),
            Typed::Line(line) => fitting(line)?,
            Typed::Interrupted => return Ok(End::Cancelled),
            // A person who leaves has seen how the turns went; a program has only our exit code.
            Typed::End => return Ok(if typing.is_terminal() { End::Done } else { end }),
        };
        end = talk.turn(desk.ui, &prompt, &mut letters).await?;
    }
}

/// Shows what the agent does with a message, as if it had been asked here; says how all of it ended, if it did.
async fn told_of(desk: &Desk<'_>, talk: &Talk, told: Told, at_prompt: bool) -> Result<Option<End>, Failure> {
    if at_prompt {
        // The line with the prompt is left as it is.
        desk.ui.note("");
    }
    let end = match told {
        Told::Turn { turn, after } => talk.letter(desk.ui, turn, after).await?,
        Told::Due => return Ok(None),
        Told::Closed => {
            desk.ui.note("the session was closed");
            End::Closed
        }
    };
    // How its turn went is nothing that was asked for here.
    Ok(Some(end).filter(|end| matches!(end, End::Closed | End::Left)))
}

/// Shows what arrives where somebody sees it. Never comes to an end.
async fn shown(arrivals: &mut Option<Arrivals>, ui: &Ui) -> Infallible {
    match arrivals {
        Some(arrivals) => arrivals.show(ui, typing::prompt).await,
        None => std::future::pending().await,
    }
}

/// What is asked before anything is typed.
fn first_prompt(arguments: &Launch) -> Result<Option<String>, Failure> {
    let Some(word) = arguments.print.as_deref().or(arguments.prompt.as_deref()) else { return Ok(None) };
    let not_text = || Failure::arguments("the prompt is not UTF-8");
    let prompt = if word == OsStr::new("-") && arguments.print.is_some() {
        let mut bytes = Vec::new();
        let limit = typing::LONGEST as u64 + 1;
        std::io::stdin()
            .lock()
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::io(format!("cannot read the prompt from standard input: {error}")))?;
        String::from_utf8(bytes).map_err(|_| not_text())?
    } else {
        word.to_str().ok_or_else(not_text)?.to_owned()
    };
    if prompt.trim().is_empty() {
        return Err(Failure::arguments("the prompt is empty").hint("say what you want, in quotes"));
    }
    Ok(Some(fitting(prompt)?))
}

/// Where the agent works: the directory that was named, else ours.
fn directory(asked: Option<&Path>) -> Result<String, Failure> {
    let asked = asked.unwrap_or_else(|| Path::new("."));
    let cannot = |reason: &dyn std::fmt::Display| {
        Failure::arguments(format!(
            "the directory `{}` cannot be used: {reason}",
            text::printable(&asked.to_string_lossy())
        ))
        .hint("name another with `--cwd DIR`")
    };
    // `..` and links are settled here, where they mean something.
    let found = std::fs::canonicalize(asked).map_err(|error| cannot(&error))?;
    if !found.is_dir() {
        return Err(cannot(&"it is none"));
    }
    found.into_os_string().into_string().map_err(|_| cannot(&"its name is not UTF-8"))
}

/// What the session is called: as asked for, else after its agent.
fn name(asked: Option<&str>, agent: &str) -> Result<String, Failure> {
    let name = match asked {
        Some(asked) => hostel_wire::topic::display_name(asked).map_err(|error| {
            Failure::arguments(format!("`{}` cannot be a name: {error}", text::printable(asked)))
                .hint("letters, digits, `_` and `-`, at most 64")
        })?,
        None => {
            let digits = hostel_wire::encoding::hex(&hostel_wire::random::bytes::<2>());
            format!("{}-{digits}", hostel_wire::topic::display_slug(agent))
        }
    };
    Ok(name.to_lowercase())
}

/// The daemon of the mesh, started if that may be; spoken to as the member.
async fn mesh_daemon(desk: &Desk<'_>, mesh: &str, may_start: bool) -> Result<Client, Failure> {
    if may_start {
        join::start_daemon(desk, mesh).await?;
    }
    let running = daemon::running(desk, mesh).await.ok_or_else(|| {
        Failure::new(Code::Network, "daemon_not_running", format!("no daemon is up for mesh `{mesh}`"))
            .hint(format!("a session needs one; start it with `claudemesh daemon up --mesh {mesh}`"))
    })?;
    Ok(running.client)
}

/// The house that hosts the agent, started if that may be.
async fn house(desk: &Desk<'_>, may_start: bool) -> Result<House, Failure> {
    let house = House { dir: HouseDir::at(&desk.home), label: "home".to_owned() };
    if house.connect().await.is_ok() {
        return Ok(house);
    }
    if may_start {
        mcp::start_house(&desk.home).await.map_err(|reason| Failure::new(Code::Network, "house_not_up", reason))?;
        return Ok(house);
    }
    Err(Failure::new(Code::Network, "house_not_up", "no house is up").hint("start it with `hostel up`"))
}

/// What leads everything inside to the session.
fn environment(token: &Token, mesh: &str, name: &str) -> BTreeMap<String, String> {
    let places = PLACES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let mut environment: BTreeMap<String, String> = places.filter(|(_, place)| !place.is_empty()).collect();
    environment.insert(speaker::TOKEN_FILE.to_owned(), token.path().to_owned());
    environment.insert(speaker::MESH.to_owned(), mesh.to_owned());
    environment.insert(speaker::SESSION.to_owned(), name.to_owned());
    environment
}

fn greet(
    desk: &Desk<'_>,
    talk: &Talk,
    mesh: &str,
    registration: &Registration,
    agent: &str,
    only: bool,
) -> Result<(), Failure> {
    let address = registration.address();
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "mesh": mesh, "session": registration.name(), "address": address, "agent": agent,
            "houseSession": talk.id(), "mode": talk.mode(),
        }))?;
    } else {
        let (address, agent, mode) = (text::printable(address), text::printable(agent), text::printable(talk.mode()));
        let end = if only { "" } else { "; /quit or Ctrl-D ends it" };
        desk.ui.note(&format!("{address} is in mesh `{mesh}`, with {agent} in mode {mode}{end}"));
    }
    Ok(())
}

/// The ways in which a session is told to end from outside.
struct Leaving {
    signals: [tokio::signal::unix::Signal; 2],
}

impl Leaving {
    /// From now on they do not end this program by themselves.
    fn new() -> Result<Self, Failure> {
        let watch =
            |kind| signal(kind).map_err(|error| Failure::internal(format!("cannot watch for signals: {error}")));
        Ok(Leaving { signals: [watch(SignalKind::terminate())?, watch(SignalKind::hangup())?] })
    }

    async fn told(mut self) {
        let [terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_second_half_of_an_address() {
        assert_eq!(name(Some("Review"), "echo").unwrap(), "review");
        let made = name(None, "My Agent").unwrap();
        assert!(made.to_lowercase() == made && made.len() > 5 && !made.contains(['/', ' ']), "{made}");
        assert_ne!(made, name(None, "My Agent").unwrap());
        for wrong in ["", "a/b", "a b"] {
            assert_eq!(name(Some(wrong), "echo").unwrap_err().exit_code(), 3, "{wrong}");
        }
    }

    #[test]
    fn prompts_and_directories_are_looked_at_first() {
        let asked = |print: Option<&str>| Launch { print: print.map(Into::into), ..Launch::default() };
        assert_eq!(first_prompt(&asked(None)).unwrap(), None);
        assert_eq!(first_prompt(&asked(Some("hi"))).unwrap().as_deref(), Some("hi"));
        assert_eq!(first_prompt(&asked(Some(" "))).unwrap_err().exit_code(), 3);
        assert!(directory(None).unwrap().starts_with('/'));
        assert_eq!(directory(Some(Path::new("/nowhere/at/all"))).unwrap_err().exit_code(), 3);
    }
}
