//! The answer of a command that ran: its output, straight from the journals.
//!
//! Invariant: however much was printed, one piece of it is in memory. Errors of the stages come before the output of
//! the last. What cannot be read to its end is cut in the middle of the line, never shortened and called whole.

use std::io;

use hostel_house::pipelines::Outcome;
use hostel_house::pipelines::Output;
use hostel_house::pipelines::Run;

use super::answer;
use super::answer::Base64;
use super::answer::Plain;
use super::connection::Client;
use super::notice::Head;

/// How much is put together before it is sent.
const PIECE: usize = 64 << 10;

/// How far the sending of a long answer may be ahead of its client: with less, the two wait for each other in turns.
const AHEAD: usize = 512 << 10;

/// Sends the answer of a pipeline whose stages all ended.
pub(crate) async fn stream(client: &mut Client<'_>, run: &Run, outcome: &Outcome) -> io::Result<()> {
    let version = client.door.0.settings.reported_version.clone();
    let mut answer = Answer { client, out: Vec::new(), sent: false };
    answer::open(&mut answer.out, answer.client.id());
    for (stage, end) in outcome.stages.iter().enumerate() {
        answer::open_stage(&mut answer.out, stage == 0, end.exit_code);
        answer.copy(run.stderr(stage)).await?;
        answer::close_stage(&mut answer.out, end.stderr_truncated, end.signal);
    }
    answer::open_stdout(&mut answer.out);
    answer.copy(run.stdout()).await?;
    answer::close(&mut answer.out, outcome.stdout_truncated, &version);
    answer.client.send(&answer.out).await
}

/// An answer on its way.
struct Answer<'a, 'b> {
    client: &'a mut Client<'b>,
    out: Vec<u8>,
    sent: bool,
}

impl Answer<'_, '_> {
    async fn copy(&mut self, mut output: Output) -> io::Result<()> {
        let mut encoder = Base64::default();
        loop {
            match output.hand(|part| encoder.push(part, &mut self.out)).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    if !self.sent {
                        self.client.say(&Plain::Error(format!("wait failed: {error}"))).await?;
                    }
                    return Err(io::Error::other(error));
                }
            }
            if self.out.len() >= PIECE {
                if !self.sent {
                    self.client.widen(AHEAD);
                }
                self.client.send(&self.out).await?;
                self.out.clear();
                self.sent = true;
            }
        }
        encoder.finish(&mut self.out);
        Ok(())
    }
}

/// The beginnings of what was printed: the last stage's output and every stage's errors.
pub(crate) async fn heads(run: &Run, outcome: &Outcome) -> (Head, Vec<Head>) {
    let mut errors = Vec::with_capacity(outcome.stages.len());
    for stage in 0..outcome.stages.len() {
        errors.push(head(run.stderr(stage)).await);
    }
    (head(run.stdout()).await, errors)
}

async fn head(mut output: Output) -> Head {
    let (mut head, mut piece) = (Head::default(), Vec::new());
    while let Ok(1..) = output.next(&mut piece).await {
        if !head.take(&piece) {
            break;
        }
        piece.clear();
    }
    head
}
