//! What every agent goes through.

use hostel_tests::procfs::{self, Identity};
use hostel_tests::wait;
use rustix::process::Signal;

use super::Door;
use super::session::{Outcome, Session};
use super::world::World;

/// One of them.
pub(crate) struct Scenario {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether it is about this agent behind this door.
    pub(crate) concerns: fn(&World, Door) -> bool,
    /// The scenario itself; panics where the agent does not do what it must.
    pub(crate) play: fn(&World, Door),
}

/// All of them.
pub(crate) const ALL: [Scenario; 9] = [
    Scenario { name: "answer", concerns: everybody, play: answer },
    Scenario { name: "tool", concerns: everybody, play: tool },
    Scenario { name: "permission", concerns: World::asks, play: permission },
    Scenario { name: "unasked", concerns: |world, door| !world.asks(door), play: unasked },
    Scenario { name: "resume", concerns: everybody, play: resume },
    Scenario { name: "interrupt", concerns: everybody, play: interrupt },
    Scenario { name: "stop a tool", concerns: everybody, play: stop_tool },
    Scenario { name: "long prompt", concerns: everybody, play: long_prompt },
    Scenario { name: "model error", concerns: everybody, play: model_error },
];

fn everybody(_: &World, _: Door) -> bool {
    true
}

/// A prompt is answered, in pieces where the CLI has them; the second in the same process where it is kept.
fn answer(world: &World, door: Door) {
    let mut session = Session::new(world, door, "answer", "auto");
    let told = session.expect("say: one two three", "one two three");
    let pieces = if world.streams(door) { "one two three" } else { "" };
    assert_eq!(told.pieces, pieces, "{told:?}");
    let first = session.process();
    session.expect("say: four", "four");
    match door {
        // Some end a moment after their last word.
        Door::Codecast => wait::until_true(world.stage.limit(), "the end of a process for one message", || {
            session.process().is_none()
        }),
        Door::Zeroclaw => {
            assert!(first.is_some(), "the process is kept");
            assert_eq!(session.process(), first, "both turns in one process");
        }
    }
}

/// A tool really runs where the session is, its call is told, and what it said reaches the model. Inside a guard it does
/// not see the house.
fn tool(world: &World, door: Door) {
    let mut session = Session::new(world, door, "tool", "auto");
    let secret = world.stage.secret();
    assert!(secret.exists(), "there is no {}", secret.display());
    let look = format!("test -e {}; echo $? > seen.txt", secret.display());
    let told = session.turn(&format!("tool: echo pineapple > made.txt; cat made.txt; {look}"));
    assert_eq!(told.outcome, Some(Outcome::Completed), "{told:?}");
    assert!(told.answer.contains("tool said:") && told.answer.contains("pineapple"), "{told:?}");
    assert!(told.tools.iter().any(|tool| tool.contains("made.txt")), "{told:?}");
    assert_eq!(session.line_of("made.txt").as_deref(), Some("pineapple"));
    if world.stage.no_guard().is_none() {
        assert_eq!(session.guard(), "full");
        assert_eq!(session.line_of("seen.txt").as_deref(), Some("1"), "the tool saw the house: {told:?}");
    }
}

/// A person is asked and nothing happens before the answer; a yes holds for what was asked and no more, a no is heeded.
fn permission(world: &World, door: Door) {
    let mut session = Session::new(world, door, "permission", "ask");
    session.begin(&format!("{} touch yes.txt", world.words.ask));
    let question = session.asked();
    assert!(question.words.contains("touch yes.txt"), "{question:?}");
    assert!(!session.has("yes.txt"), "the tool did not wait for the answer");
    session.answer(&question, "allow_once");
    let told = session.finish();
    assert_eq!(told.outcome, Some(Outcome::Completed), "{told:?}");
    assert!(session.has("yes.txt"), "it was allowed: {told:?}");

    session.begin(&format!("{} touch no.txt", world.words.ask));
    let question = session.asked();
    assert!(question.words.contains("touch no.txt"), "{question:?}");
    session.answer(&question, "reject");
    let told = session.finish();
    if world.traits.takes_no {
        assert_eq!(told.outcome, Some(Outcome::Completed), "{told:?}");
    }
    assert!(!session.has("no.txt"), "it was refused: {told:?}");
    session.expect("say: no hard feelings", "no hard feelings");
}

/// A CLI that cannot ask does not take silence for a yes.
fn unasked(world: &World, door: Door) {
    let mut session = Session::new(world, door, "unasked", "ask");
    let told = session.turn(&format!("{} touch no.txt", world.words.ask));
    assert!(!session.has("no.txt"), "nobody allowed it: {told:?}");
    session.expect("say: still here", "still here");
}

/// A later process knows what was said to an earlier one.
fn resume(world: &World, door: Door) {
    let mut session = Session::new(world, door, "resume", "auto");
    session.expect("say: pineapple", "pineapple");
    if door == Door::Zeroclaw {
        let pid = session.process().expect("the process is kept");
        let process = Identity::of(pid).expect("it runs");
        process.signal(Signal::KILL);
        // The house has to have seen it: a prompt that is given to a dying process shares its fate.
        wait::until_true(world.stage.limit(), "the end of the process", || session.process().is_none());
    }
    session.expect("recall:", "earlier: say: pineapple");
    session.expect("recall:", "earlier: say: pineapple | recall:");
}

/// A turn in the middle of its answer is stopped, down to the model; the conversation goes on where it was.
fn interrupt(world: &World, door: Door) {
    let mut session = Session::new(world, door, "interrupt", "auto");
    session.expect("say: pineapple", "pineapple");
    let prompt = "slow: 2000 50";
    session.begin(prompt);
    world.wait_for_work(prompt);
    if world.streams(door) {
        session.heard(3);
    }
    session.interrupt();
    world.wait_for_silence(prompt);
    let told = session.turn("recall:");
    assert_eq!(told.outcome, Some(Outcome::Completed), "{told:?}");
    assert!(told.answer.starts_with("earlier: say: pineapple"), "{told:?}");
}

/// A tool does not outlive the turn it ran for, nor does anything it started.
fn stop_tool(world: &World, door: Door) {
    let mut session = Session::new(world, door, "stop-tool", "auto");
    session.begin("tool: echo $$ > tool.pid; timeout 600 tail -f /dev/null");
    let tool = wait::until(world.stage.limit(), "the tool to run", || {
        let shell = session.line_of("tool.pid")?.trim().parse().ok()?;
        let all: Vec<Identity> = procfs::descendants(shell).into_iter().chain(Identity::of(shell)).collect();
        let works = |process: &Identity| procfs::command_line(process.pid) == "tail -f /dev/null";
        all.iter().any(works).then_some(all)
    });
    session.interrupt();
    for process in tool {
        process.wait_gone(world.stage.limit());
    }
    session.expect("say: next", "next");
}

/// More than an argument may hold arrives whole.
fn long_prompt(world: &World, door: Door) {
    let mut session = Session::new(world, door, "long", "auto");
    let text = "0123456789".repeat(15_000);
    session.expect(&format!("count: {text}"), "counted 150000");
}

/// The model refuses: the client learns why, and the session goes on.
fn model_error(world: &World, door: Door) {
    let mut session = Session::new(world, door, "error", "auto");
    session.expect("say: before", "before");
    for (prompt, part) in world.words.failures {
        let told = session.turn(prompt);
        assert_eq!(told.outcome, Some(Outcome::Failed), "{told:?}");
        assert!(told.errors.iter().any(|error| error.contains(part)), "{part:?} is not said: {told:?}");
        session.expect("say: after", "after");
    }
}
