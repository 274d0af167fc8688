//! Whatever an agent of any kind prints and whatever is said to it, in any order: its driver keeps the promises of
//! `Driver`. Looking changes nothing, a restored driver goes on like the one before, a turn is over once, a question is
//! open until it is answered or taken back.
//!
//! The first line is the setup: a byte for the kind, one for hosting and mode, one for how it ends, then the prompt. Each
//! other line is printed by the agent, or, with `>` before it, done by the house: `>` what, after how many
//! more lines its mark is read, and words.
#![no_main]

use hostel_agents::{Decision, Exit, Hosting, Input, Kind, Mode, Setup, Usage};
use hostel_fuzz::agents::Conversation;
use libfuzzer_sys::fuzz_target;

/// Something that was said and whose mark was not read yet.
enum Given {
    Own,
    Prompt(String),
    Decision(String, Decision),
    Interrupt,
}

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Some(&[kind, flags, end, ref prompt @ ..]) = lines.next() else { return };
    let mut conversation = Conversation::new(setup(kind, flags, prompt));
    let mut given: Option<(Given, u8)> = None;
    for line in lines {
        match line {
            [b'>', what, rest @ ..] if given.is_none() => {
                let (wait, words) = match rest {
                    [digit @ b'0'..=b'9', words @ ..] => (digit - b'0', words),
                    words => (0, words),
                };
                let words = String::from_utf8_lossy(words).into_owned();
                given = say(&mut conversation, *what, words).map(|given| (given, wait));
            }
            [b'>', ..] => {}
            line => {
                conversation.line(line);
                given = given.map(|(given, wait)| (given, wait.saturating_sub(1)));
            }
        }
        if let Some((arrived, _)) = given.take_if(|(_, wait)| *wait == 0) {
            conversation.sent(&arrived.as_input(conversation.next_turn()));
        }
    }
    let exit = match end % 8 {
        0..=2 => Exit { code: 0, signal: 0, lost: false, stopped: false },
        3 => Exit { code: 1, signal: 0, lost: false, stopped: false },
        4 => Exit { code: -1, signal: i32::from(end / 8), lost: false, stopped: false },
        5 => Exit { code: -1, signal: 0, lost: true, stopped: false },
        6 => Exit { code: 143, signal: 0, lost: false, stopped: true },
        _ => Exit { code: -1, signal: 15, lost: false, stopped: true },
    };
    conversation.end(exit, if end >= 128 { "\u{1b}[31mwhat it said last\u{1b}[0m\n" } else { "" });
});

impl Given {
    fn as_input(&self, turn: u64) -> Input<'_> {
        match self {
            Given::Own => Input::Own,
            Given::Prompt(text) => Input::Prompt { turn, text },
            Given::Decision(request, decision) => Input::Decision { request, decision, shown: None },
            Given::Interrupt => Input::Interrupt,
        }
    }
}

/// Does what the house may do; gives what is now on its way to the agent.
fn say(conversation: &mut Conversation, what: u8, words: String) -> Option<Given> {
    let given = match what {
        b'o' => return conversation.wants().then_some(Given::Own),
        b's' => {
            conversation.restore();
            return None;
        }
        b'p' => Given::Prompt(words),
        b'i' => Given::Interrupt,
        _ => {
            let decision = match what {
                b'a' => Decision::AllowOnce,
                b'A' => Decision::AllowAlways,
                b'r' => Decision::Reject(words),
                b'e' => Decision::RejectWithEdit(words),
                b'c' => {
                    let answers = words.split(';').filter_map(|pair| pair.split_once('='));
                    Decision::Answers(answers.map(|(asked, answer)| (asked.to_owned(), answer.to_owned())).collect())
                }
                // The newest one is no better than the oldest.
                _ => {
                    let request = conversation.questions().last()?.clone();
                    return ask(conversation, Given::Decision(request, Decision::AllowOnce));
                }
            };
            Given::Decision(conversation.questions().first()?.clone(), decision)
        }
    };
    ask(conversation, given)
}

fn ask(conversation: &Conversation, given: Given) -> Option<Given> {
    conversation.say(&given.as_input(conversation.next_turn())).then_some(given)
}

fn setup(kind: u8, flags: u8, prompt: &[u8]) -> Setup {
    let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
    let hosting = if flags & 4 == 0 { Hosting::Warm } else { Hosting::PerMessage };
    let used = Usage { input_tokens: 100, output_tokens: 10, cached_tokens: 1, cost_usd: 0.25 };
    Setup {
        kind,
        hosting,
        mode: [Mode::Auto, Mode::Code, Mode::Plan, Mode::Ask][usize::from(flags % 4)],
        model: (flags & 8 != 0).then(|| "small".to_owned()),
        resume: (flags & 16 != 0).then(|| "s".to_owned()),
        cwd: "/home/dev/project".to_owned(),
        command: if matches!(kind, Kind::Acp | Kind::Echo) { vec!["agent".to_owned()] } else { Vec::new() },
        prompt: (hosting == Hosting::PerMessage).then(|| String::from_utf8_lossy(prompt).into_owned()),
        root: flags & 32 != 0,
        used: (flags & 64 != 0).then_some(used),
    }
}
