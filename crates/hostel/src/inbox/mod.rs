//! The inbox as people see it: requests in full, on a whole screen or line by line.
//!
//! Invariant: nothing foreign is painted but through [`visible`]. The full-screen face holds no passphrase: it hands it to
//! the houses, and what they remember for its connections is all there is.

mod dialog;
mod guard;
pub(crate) mod hints;
mod keys;
mod link;
mod model;
mod overlay;
pub(crate) mod page;
pub(crate) mod passphrase;
pub(crate) mod request;
mod terminal;
mod view;
pub(crate) mod visible;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::mpsc;

use crate::commands::Context;
use crate::commands::now_ns;
use crate::config::Occasion;
use crate::error::CommandError;
use crate::houses::House;
use link::Ask;
use model::Deed;
use model::HouseNews;
use model::Model;
use passphrase::Passphrase;
use request::Request;
use terminal::Input;
use terminal::Screen;
use view::Palette;

/// How often the clocks on the screen are set.
const TICK: Duration = Duration::from_millis(250);

/// How often houses that were not there are looked for.
const LOOK: Duration = Duration::from_secs(5);

/// News of houses, and questions to one, that may wait.
const DEPTH: usize = 64;

/// The full-screen inbox, until the person leaves.
pub(crate) async fn run(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    // Whether that had an effect is looked at when a passphrase is asked for: without one the inbox can still be read.
    drop(passphrase::keep_memory_private());
    let notify = context.settings()?.approvals.notify;
    let bell = notify.bell && notify.on.contains(&Occasion::Request);
    let live = context.houses.live().await?;
    let problem = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| CommandError::failure(format!("cannot {what}: {error}"))
    };
    let signals = || -> std::io::Result<_> {
        let ends = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
        let [terminate, hangup, interrupt, quit] = ends.map(signal);
        Ok((
            terminate?,
            hangup?,
            interrupt?,
            quit?,
            signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        ))
    };
    let (mut terminate, mut hangup, mut interrupt, mut quit, mut continued) =
        signals().map_err(problem("watch for signals"))?;
    let screen = Screen::take().map_err(problem("use the terminal"))?;
    let mut inputs = terminal::read().map_err(problem("read the terminal"))?;
    let (news, mut heard) = mpsc::channel(DEPTH);
    let (looked, mut looks) = mpsc::channel(DEPTH);
    let palette = Palette { colour: context.ui.colours().0 };
    let mut face = Face {
        screen,
        palette,
        model: Model { bell, ..Model::default() },
        links: Vec::new(),
        known: BTreeSet::new(),
        news,
        looked,
    };
    for (house, _) in live {
        face.link(house);
    }
    let (found, mut more) = mpsc::channel(DEPTH);
    let searching = hostel_tasks::spawn(search(context.houses.clone(), found));
    let mut tick = tokio::time::interval(TICK);
    let outcome = loop {
        if face.draw().map_err(problem("write to the terminal"))? {
            // What could be seen has changed something: paint once more before anything is typed.
            face.draw().map_err(problem("write to the terminal"))?;
        }
        let now = Instant::now();
        let deeds = tokio::select! {
            biased;
            _ = terminate.recv() => break Ok(()),
            _ = hangup.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            _ = quit.recv() => break Ok(()),
            // A terminal that was lent to others is ours again.
            _ = continued.recv() => {
                face.model.guard.reset();
                face.screen.again().map_err(problem("use the terminal"))?;
                Vec::new()
            }
            input = inputs.recv() => match input {
                Some(Input::Key(key, pressed)) => face.model.key(key, pressed),
                Some(Input::Paste(text)) => {
                    face.model.paste(&text);
                    Vec::new()
                }
                Some(Input::Resize) => Vec::new(),
                Some(Input::Gone) | None => break Ok(()),
            },
            Some((house, said)) = heard.recv() => face.model.news(house, said, now),
            Some(request) = looks.recv() => {
                face.model.looked(request);
                Vec::new()
            }
            Some(house) = more.recv() => {
                face.link(house);
                Vec::new()
            }
            _ = tick.tick() => {
                face.model.tick(now);
                Vec::new()
            }
        };
        if let Some(end) = face.carry_out(deeds, &mut inputs) {
            break end;
        }
    };
    searching.abort();
    drop(face);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Looks for houses that were opened later.
async fn search(houses: crate::houses::Houses, found: mpsc::Sender<House>) {
    loop {
        tokio::time::sleep(LOOK).await;
        for (house, _) in houses.live().await.unwrap_or_default() {
            if found.send(house).await.is_err() {
                return;
            }
        }
    }
}

struct Face {
    screen: Screen,
    palette: Palette,
    model: Model,
    /// By number, as the model counts houses.
    links: Vec<mpsc::Sender<Ask>>,
    known: BTreeSet<String>,
    news: mpsc::Sender<(usize, HouseNews)>,
    looked: mpsc::Sender<Request>,
}

impl Face {
    /// Connects to a house, unless it is known.
    fn link(&mut self, house: House) {
        if !self.known.insert(house.label.clone()) {
            return;
        }
        let number = self.model.add_house(house.label.clone());
        let (asks, asked) = mpsc::channel(DEPTH);
        self.links.push(asks);
        hostel_tasks::spawn(link::run(number, house, asked, self.news.clone()));
    }

    /// Paints; whether something has to be painted again because of it.
    fn draw(&mut self) -> std::io::Result<bool> {
        let (model, palette) = (&mut self.model, self.palette);
        let mut deeds = Vec::new();
        let (scroll, read) = (model.scroll, model.guard.is_read());
        self.screen.terminal.draw(|frame| deeds = view::draw(frame, model, palette, Instant::now(), now_ns()))?;
        for deed in deeds {
            self.quick(deed);
        }
        Ok(self.model.scroll != scroll || self.model.guard.is_read() != read)
    }

    /// Carries out what was decided; how it ends, if that was to leave.
    fn carry_out(&mut self, deeds: Vec<Deed>, inputs: &mut mpsc::Receiver<Input>) -> Option<Result<(), CommandError>> {
        for deed in deeds {
            match deed {
                Deed::Quit => return Some(Ok(())),
                Deed::Fail(words) => return Some(Err(CommandError::failure(words))),
                Deed::Drain => {
                    terminal::drain();
                    // Keys that were read already; anything else is still news.
                    while let Ok(input) = inputs.try_recv() {
                        if matches!(input, Input::Gone) {
                            return Some(Ok(()));
                        }
                    }
                }
                other => self.quick(other),
            }
        }
        None
    }

    /// What takes no time. A house that does not keep up with its questions does not get more.
    fn quick(&mut self, deed: Deed) {
        let ask = |face: &Face, house: usize, ask: Ask| {
            if let Some(link) = face.links.get(house) {
                link.try_send(ask).unwrap_or_default();
            }
        };
        match deed {
            Deed::Unlock { houses, passphrase } => {
                let passphrase = zeroize::Zeroizing::new(passphrase);
                for house in houses {
                    ask(self, house, Ask::Unlock(Passphrase::new(passphrase.to_string())));
                }
            }
            Deed::Lock => {
                for house in 0..self.links.len() {
                    ask(self, house, Ask::Lock);
                }
            }
            Deed::Decide { house, answer } => ask(self, house, Ask::Decide(answer)),
            Deed::Why { house, id } => ask(self, house, Ask::Why(id)),
            Deed::Shown { house, id } => ask(self, house, Ask::Shown(id)),
            Deed::Fetch { house, id } => ask(self, house, Ask::Fetch(id)),
            Deed::Look { mut request } => {
                let looked = self.looked.clone();
                drop(hostel_tasks::spawn_blocking(move || {
                    hints::look_again(&mut request);
                    looked.blocking_send(*request).unwrap_or_default();
                }));
            }
            Deed::Bell => self.screen.ring(),
            Deed::Drain | Deed::Quit | Deed::Fail(_) => {}
        }
    }
}
