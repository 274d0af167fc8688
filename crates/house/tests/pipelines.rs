//! Approved pipelines end to end: real files, a real keeper, real children, a real record of it all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use crate::support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hostel_house::pipelines::{
    EXECUTION_PATH, End, Outcome, PipelineLimits, PlanRequest, Privilege, RunError, StageEnd,
};
use support::pipelines::{Opened, Place, ask, processor_time};
use support::{opened, until, within};

const OK: StageEnd = StageEnd { exit_code: 0, signal: None, stderr_truncated: false };

fn ended(exit_code: i32) -> StageEnd {
    StageEnd { exit_code, ..OK }
}

/// Runs one shell script to its end.
async fn shell(house: &Opened, script: &str) -> Result<(Outcome, Vec<u8>, Vec<u8>), RunError> {
    house.carry_out(ask(&[&["sh", "-c", script]])).await
}

fn program(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_errors_and_exit_codes_are_what_they_were() {
    let place = Place::new();
    let house = place.open().await;
    let (outcome, stdout, stderr) = shell(&house, "echo out; echo err >&2; exit 3").await.unwrap();
    assert_eq!((stdout.as_slice(), stderr.as_slice()), (b"out\n".as_slice(), b"err\n".as_slice()));
    assert_eq!((outcome.stages.as_slice(), outcome.end), ([ended(3)].as_slice(), End::Finished));
    assert!(!outcome.stdout_truncated && outcome.unkillable.is_empty());
    assert!(outcome.started_ns > 0 && outcome.ended_ns >= outcome.started_ns);
    for code in [0, 1, 127, 255] {
        let (outcome, stdout, stderr) = shell(&house, &format!("exit {code}")).await.unwrap();
        assert_eq!((outcome.stages, stdout, stderr), (vec![ended(code)], Vec::new(), Vec::new()));
    }
    for signal in [9, 15, 11] {
        let (outcome, ..) = shell(&house, &format!("kill -{signal} $$")).await.unwrap();
        assert_eq!(outcome.stages, [StageEnd { exit_code: -1, signal: Some(signal), stderr_truncated: false }]);
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_says_why_and_which() {
    let place = Place::new();
    let house = place.open().await;
    let plain = place.path().join("plain");
    std::fs::write(&plain, "x").unwrap();
    let long = "x".repeat(200 * 1024);
    let cases: [(&[&[&str]], usize, i32); 6] = [
        (&[&["no-such-program"]], 0, 2),
        (&[&[""]], 0, 2),
        (&[&[plain.to_str().unwrap()]], 0, 13),
        (&[&["/tmp"]], 0, 13),
        (&[&["true", &long]], 0, 7),
        (&[&["sleep", "1000"], &["no-such-program"]], 1, 2),
    ];
    for (stages, stage, errno) in cases {
        let error = house.carry_out(ask(stages)).await.unwrap_err();
        assert_eq!(error, RunError::CannotStart { stage, errno });
    }
    assert_eq!(house.processes.running(), 0, "nothing is started when it is known that something cannot be");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_cannot_be_started_takes_the_others_with_it() {
    let place = Place::new();
    let house = place.open().await;
    let broken = program(place.path(), "broken", "#!/no/such/interpreter\n");
    let run = house.start(ask(&[&["sleep", "1000"], &["sleep", "1000"], &[&broken]])).await;
    let error = within("the end of the pipeline", run.clone().finished()).await.unwrap_err();
    assert_eq!(error, RunError::CannotStart { stage: 2, errno: 2 });
    let outcome = run.outcome().unwrap();
    assert_eq!(outcome.stages.iter().map(|stage| stage.signal).collect::<Vec<_>>(), [Some(9), Some(9)]);
    assert_eq!(house.processes.running(), 0);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_flows_from_stage_to_stage() {
    let place = Place::new();
    let house = place.open().await;
    let (outcome, stdout, _) = house.carry_out(ask(&[&["seq", "100000"], &["wc", "-l"]])).await.unwrap();
    assert_eq!((stdout.as_slice(), outcome.stages.as_slice()), (b"100000\n".as_slice(), [OK, OK].as_slice()));
    let stages: &[&[&str]] =
        &[&["seq", "300000"], &["grep", "7"], &["sort", "-rn"], &["sh", "-c", "head -n 2; echo late >&2; exit 4"]];
    let run = house.start(ask(stages)).await;
    let outcome = run.clone().finished().await.unwrap();
    assert_eq!(run.stdout().read().await.unwrap(), b"299997\n299987\n");
    assert_eq!(run.stderr(3).read().await.unwrap(), b"late\n");
    assert_eq!(run.stderr(0).read().await.unwrap(), b"");
    assert_eq!(outcome.stages[3], ended(4));
    // A writer whose reader has left is told by the kernel.
    let (outcome, stdout, _) = house.carry_out(ask(&[&["yes"], &["head", "-n", "1"]])).await.unwrap();
    assert_eq!(stdout, b"y\n");
    assert_eq!(outcome.stages, [StageEnd { exit_code: -1, signal: Some(13), stderr_truncated: false }, OK]);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_cap_is_whole_and_one_byte_more_is_not() {
    const CAP: usize = 16 * 1024 * 1024;
    let place = Place::new();
    let house = place.open().await;
    let script = "head -c $1 /dev/zero; head -c $2 /dev/zero >&2; exit 5";
    for (out, err) in [(CAP, CAP), (CAP + 1, CAP), (CAP, CAP + 1), (3 * CAP, 0)] {
        let asked = ask(&[&["sh", "-c", script, "sh", &out.to_string(), &err.to_string()]]);
        let (outcome, stdout, stderr) = house.carry_out(asked).await.unwrap();
        assert_eq!((stdout.len(), stderr.len()), (out.min(CAP), err.min(CAP)));
        assert_eq!((outcome.stdout_truncated, outcome.stages[0].stderr_truncated), (out > CAP, err > CAP));
        assert_eq!(outcome.stages[0].exit_code, 5, "it was not killed for it");
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_writer_runs_into_the_time_limit_and_costs_no_disk() {
    let place = Place::new();
    let limits = PipelineLimits { time: Duration::from_secs(1), output: 100_000, ..PipelineLimits::default() };
    let house = place.open_with(limits).await;
    let began = Instant::now();
    let approval = house.approve(ask(&[&["yes"]])).await;
    let run = house.pipelines.run(&approval).await.unwrap();
    let error = within("the end of the pipeline", run.clone().finished()).await.unwrap_err();
    assert_eq!(error, RunError::TimedOut { secs: 1 });
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(house.processes.usage().await.unwrap().bytes < 1 << 20);
    let outcome = run.outcome().unwrap();
    assert!(outcome.stdout_truncated && outcome.stages[0].signal == Some(9), "{outcome:?}");
    assert_eq!(house.recorded(&approval.id).await.end, End::TimedOut { secs: 1 });
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_reaches_even_those_that_went_away() {
    let place = Place::new();
    let house = place.open_without_cgroups().await;
    let sleep = Sleep::new();
    // It leaves the session, loses its parent and clears its environment.
    let script = format!("(env -i setsid {sleep} &); env -i setsid {sleep} & echo ready; exec {sleep}");
    let run = house.start(ask(&[&["sh", "-c", &script], &["cat"]])).await;
    let mut ready = Vec::new();
    within("the first output", run.stdout().next(&mut ready)).await.unwrap();
    until("all three sleep", async || sleep.count(), |count| *count == 3).await;
    run.kill("the requester left");
    let error = within("the end of the pipeline", run.clone().finished()).await.unwrap_err();
    assert_eq!(error, RunError::Killed("the requester left".to_owned()));
    assert_eq!(sleep.count(), 0);
    assert_eq!(run.outcome().unwrap().unkillable, [0; 0]);
    house.end().await;
}

/// A `sleep` of so odd a length that nobody else on this machine sleeps that long.
struct Sleep(String);

impl Sleep {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Sleep(format!("1234.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The processes that sleep that long.
    fn count(&self) -> usize {
        let line = format!("sleep\0{}\0", self.0);
        let commands = std::fs::read_dir("/proc").unwrap().flatten();
        commands
            .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|found| found == line.as_bytes()))
            .count()
    }
}

impl std::fmt::Display for Sleep {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "sleep {}", self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_keeps_the_pipe_open_delays_nothing() {
    let place = Place::new();
    let house = place.open().await;
    let sleep = Sleep::new();
    let (mut attempts, mut fastest) = (0, Duration::MAX);
    // A busy machine may delay one of them; a wait for the grandchild would delay each by five seconds.
    while fastest >= Duration::from_millis(4500) && attempts < 5 {
        attempts += 1;
        let began = Instant::now();
        let (outcome, stdout, _) = shell(&house, &format!("{sleep} & echo started; exit 4")).await.unwrap();
        fastest = fastest.min(began.elapsed());
        assert_eq!((outcome.stages.as_slice(), stdout.as_slice()), ([ended(4)].as_slice(), b"started\n".as_slice()));
    }
    assert!(fastest < Duration::from_millis(4500), "each of {attempts} took at least {fastest:?}");
    // They ended normally, so what they left behind is nobody's to kill, until the keeper goes.
    until("the grandchildren sleep", async || sleep.count(), |count| *count == attempts).await;
    house.end().await;
    until("the grandchildren are gone", async || sleep.count(), |count| *count == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_gets_its_environment_and_place_and_nothing_else() {
    let place = Place::new();
    let house = place.open().await;
    let asked = || PlanRequest {
        env: [("TZ", "UTC"), ("LC_ALL", "C")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..ask(&[&["env"]])
    };
    let (_, stdout, _) = house.carry_out(asked()).await.unwrap();
    let mut found: Vec<String> = String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect();
    found.sort();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let uid = rustix::process::geteuid().as_raw().to_string();
    let account: Vec<&str> =
        passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f[2] == uid).unwrap();
    let mut expected = vec![
        format!("HOME={}", account[5]),
        "LC_ALL=C".to_owned(),
        format!("LOGNAME={}", account[0]),
        format!("PATH={EXECUTION_PATH}"),
        "TZ=UTC".to_owned(),
        format!("USER={}", account[0]),
    ];
    expected.sort();
    assert_eq!(found, expected);
    let forwarded = PlanRequest { forward_agent: Some(PathBuf::from("/run/agent.sock")), ..asked() };
    let (_, stdout, _) = house.carry_out(forwarded).await.unwrap();
    assert!(String::from_utf8(stdout).unwrap().contains("SSH_AUTH_SOCK=/run/agent.sock\n"));
    let script = "pwd; umask; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; \
                  grep -E '^(SigIgn|SigBlk)' /proc/self/status; read -r _ _ _ _ _ session _ < /proc/$$/stat; \
                  [ $session = $$ ] && echo leads; cat";
    let (_, stdout, _) = shell(&house, script).await.unwrap();
    // Two signals are the C library's own; whoever started the tests may have left them ignored.
    let stdout = String::from_utf8(stdout).unwrap().replace("SigIgn:\t0000000080000000", "SigIgn:\t0000000000000000");
    let expected = "/\n0077\n/dev/null\n4\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nleads\n";
    assert_eq!(stdout, expected);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_the_one_that_was_shown_is_not_run() {
    let place = Place::new();
    let house = place.open().await;
    let witness = place.path().join("witness");
    let script = format!("#!/bin/sh\necho ran >> {}\n", witness.display());
    let tool = program(place.path(), "tool", &script);
    let refused = async |change: &dyn Fn()| {
        let approval = house.approve(ask(&[&["true"], &[&tool]])).await;
        assert_eq!(house.pipelines.look_again(&approval).await, Ok(()));
        change();
        let told = house.pipelines.look_again(&approval).await.unwrap_err();
        let error = house.pipelines.run(&approval).await.unwrap().finished().await.unwrap_err();
        let RunError::Changed { stage: 1, what } = error else { panic!("{error:?}") };
        assert_eq!(told, what);
        what
    };
    let what = refused(&|| std::fs::write(&tool, script.replace("ran", "bad")).unwrap()).await;
    assert!(what.ends_with("has another content now"), "{what}");
    std::fs::write(&tool, &script).unwrap();
    let what = refused(&|| {
        let other = program(place.path(), "other", &script);
        std::fs::rename(other, &tool).unwrap();
    })
    .await;
    assert!(what.ends_with("is another file now"), "{what}");
    assert!(!witness.exists() && house.processes.list().is_empty());
    house.carry_out(ask(&[&["true"], &[&tool]])).await.unwrap();
    assert_eq!(std::fs::read_to_string(&witness).unwrap(), "ran\n");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_second_joins_and_whoever_comes_late_does_not_begin_again() {
    let place = Place::new();
    let house = place.open().await;
    let witness = place.path().join("witness");
    let script = format!("echo ran >> {}; echo hello", witness.display());
    let approval = house.approve(ask(&[&["sh", "-c", &script]])).await;
    let (first, second) = tokio::join!(house.pipelines.run(&approval), house.pipelines.run(&approval));
    let (first, second) = (first.unwrap(), second.unwrap());
    for run in [&first, &second] {
        assert_eq!(run.clone().finished().await.unwrap().stages, [OK]);
        assert_eq!(run.stdout().read().await.unwrap(), b"hello\n");
    }
    first.discard();
    until("it is forgotten", async || house.processes.list().len(), |left| *left == 0).await;
    // Its journal is removed a moment after it is off the list.
    until("its journal is removed", async || house.processes.usage().await.unwrap().files, |files| *files == 0).await;
    assert!(matches!(house.pipelines.run(&approval).await.err(), Some(RunError::NotRun(_))));
    let fresh = house.approvals.get(&approval.id).await.unwrap().unwrap();
    assert!(matches!(house.pipelines.run(&fresh).await.err(), Some(RunError::Lost(_))));
    assert_eq!(std::fs::read_to_string(&witness).unwrap(), "ran\n");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_approved_is_not_run() {
    let place = Place::new();
    let house = place.open().await;
    let mut approval = house.approve(ask(&[&["true"]])).await;
    for state in ["pending", "denied", "expired", "withdrawn"] {
        use hostel_house::approvals::State;
        let states = [State::Pending, State::Denied, State::Expired, State::Withdrawn];
        approval.state = states.into_iter().find(|known| known.word() == state).unwrap();
        let error = house.pipelines.run(&approval).await.err().unwrap();
        assert_eq!(error, RunError::NotRun(format!("it is {state}")));
    }
    assert!(house.processes.list().is_empty());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_does_not_notice_that_its_keeper_is_replaced() {
    let place = Place::new();
    let house = place.open().await;
    let count = "i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done; echo counted >&2";
    let run = house.start(ask(&[&["sh", "-c", count], &["tac"], &["sort", "-n"]])).await;
    until("all run", async || house.processes.running(), |running| *running == 3).await;
    for _ in 0..5 {
        house.processes.upgrade_keeper(opened(&place.options().program)).await.unwrap();
    }
    let outcome = run.clone().finished().await.unwrap();
    assert_eq!(outcome.stages, [OK, OK, OK]);
    let expected: String = (0..30000).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(run.stdout().read().await.unwrap()).unwrap(), expected);
    assert_eq!(run.stderr(0).read().await.unwrap(), b"counted\n");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_outlives_the_keeper_that_set_it() {
    let place = Place::new();
    let house = place.open_with(PipelineLimits { output: 1000, ..PipelineLimits::default() }).await;
    let gate = place.path().join("gate");
    let script =
        format!("head -c 990 /dev/zero; until [ -e {} ]; do sleep 0.02; done; head -c 5000 /dev/zero", gate.display());
    let run = house.start(ask(&[&["sh", "-c", &script]])).await;
    let mut first = Vec::new();
    run.stdout().next(&mut first).await.unwrap();
    house.processes.upgrade_keeper(opened(&place.options().program)).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    let outcome = run.clone().finished().await.unwrap();
    assert!(outcome.stdout_truncated);
    assert_eq!(run.stdout().read().await.unwrap().len(), 1000);
    assert!(house.processes.usage().await.unwrap().bytes < 5000 + 4096);
    house.end().await;
}

/// A sudo that says what it was given.
const SUDO: &str = "#!/bin/sh\ncat > /dev/null\nprintf '%s\\n' \"$@\"\nenv >&2\n";

#[tokio::test(flavor = "multi_thread")]
async fn sudo_is_given_the_resolved_file_and_never_an_option() {
    let place = Place::new();
    let house = place.open().await;
    let sudo = program(place.path(), "sudo", SUDO);
    house.pipelines.set_programs(Some(PathBuf::from(&sudo)), None);
    let strange = program(place.path(), "-u=x", "#!/bin/sh\n");
    let privileged = |stages: &[&[&str]]| PlanRequest { privilege: Privilege::Sudo, ..ask(stages) };
    let asked =
        PlanRequest { env: [("TZ".to_owned(), "UTC".to_owned())].into(), ..privileged(&[&[&strange, "-n", "A=b"]]) };
    let run = house.start(asked).await;
    run.clone().finished().await.unwrap();
    let said = String::from_utf8(run.stdout().read().await.unwrap()).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"-n"), "nobody can type a password");
    let end = lines.iter().position(|word| *word == "--").unwrap();
    let names: Vec<&str> = lines[1..end].iter().map(|word| word.split_once('=').unwrap().0).collect();
    assert_eq!(names, ["HOME", "LOGNAME", "PATH", "TZ", "USER"]);
    assert!(lines.contains(&"HOME=/root") && lines.contains(&"USER=root") && lines.contains(&"LOGNAME=root"));
    assert_eq!(lines[end + 1..], [strange.as_str(), "-n", "A=b"]);
    let env = String::from_utf8(run.stderr(0).read().await.unwrap()).unwrap();
    let mut names: Vec<&str> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    names.retain(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name));
    assert_eq!(names, ["HOME", "LOGNAME", "PATH", "USER"], "sudo itself gets nothing of the request");
    // A pipeline reads from no keyboard: sudo cannot be told a password there.
    let (desk, mut wanted) = tokio::sync::mpsc::channel(1);
    house.pipelines.set_password_desk(Some(desk));
    let run = house.start(privileged(&[&["true"], &["cat", "/etc/hostname"]])).await;
    let outcome = run.clone().finished().await.unwrap();
    assert_eq!(outcome.stages, [OK, OK], "one entry for each stage");
    let said = String::from_utf8(run.stdout().read().await.unwrap()).unwrap();
    assert!(said.starts_with("-n\n") && said.contains("\n--\n/") && said.ends_with("cat\n/etc/hostname\n"), "{said}");
    assert!(wanted.try_recv().is_err());
    house.end().await;
}

/// A sudo that wants a password, and a second one if the first is wrong, before it becomes a command that prints its
/// input.
const ASKING_SUDO: &str = "#!/bin/sh\n\
    [ \"$1 $2\" = '-k -S' ] || exit 9\n\
    for word; do case $word in *\"$SUDO_PROMPT\"*) exit 8 ;; esac; done\n\
    printf 'a lecture\\n%s' \"$SUDO_PROMPT\" >&2\n\
    IFS= read -r word || exit 7\n\
    [ \"$word\" = right ] || { printf 'Sorry\\n%s' \"$SUDO_PROMPT\" >&2; IFS= read -r word || exit 6; }\n\
    echo \"told: $word\"; echo oh >&2\n\
    exec cat\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_password_goes_to_sudo_and_its_prompt_to_nobody() {
    let place = Place::new();
    let house = place.open().await;
    let sudo = program(place.path(), "sudo", ASKING_SUDO);
    house.pipelines.set_programs(Some(PathBuf::from(&sudo)), None);
    let (desk, mut wanted) = tokio::sync::mpsc::channel(1);
    house.pipelines.set_password_desk(Some(desk));
    let tool = program(place.path(), "tool", "#!/bin/sh\n");
    let asked = || PlanRequest { privilege: Privilege::Sudo, ..ask(&[&[&tool]]) };
    for (typed, ends, stdout, stderr) in [
        (&["right"][..], 0, "told: right\n", "a lecture\noh\n"),
        (&["wrong", "right"], 0, "told: right\n", "a lecture\nSorry\noh\n"),
        (&[], 7, "", "a lecture\n"),
    ] {
        let approval = house.approve(asked()).await;
        let run = house.pipelines.run(&approval).await.unwrap();
        for word in typed.iter().map(Some).chain([None]).take(typed.len().max(1)) {
            let asked = within("a question", wanted.recv()).await.unwrap();
            assert_eq!(
                (asked.approval.as_str(), &asked.pipeline),
                (approval.id.as_str(), approval.subject.pipeline().unwrap())
            );
            let word = word.map(|word| hostel_house::pipelines::Password::new(word.as_bytes().to_vec()));
            asked.answer.send(word).unwrap();
        }
        let outcome = within("the end", run.clone().finished()).await.unwrap();
        assert_eq!(outcome.stages, [ended(ends)], "{typed:?}");
        let read = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(read(run.stdout().read().await.unwrap()), stdout);
        assert_eq!(read(run.stderr(0).read().await.unwrap()), stderr);
    }
    // What became another file while the password was typed gets none.
    let run = house.start(asked()).await;
    let question = within("a question", wanted.recv()).await.unwrap();
    std::fs::write(&tool, "#!/bin/sh\necho evil\n").unwrap();
    question.answer.send(Some(hostel_house::pipelines::Password::new(b"right".to_vec()))).unwrap();
    let what = within("the reason", question.refused).await.unwrap();
    assert!(what.ends_with("has another content now"), "{what}");
    assert_eq!(within("the end", run.clone().finished()).await.unwrap().stages, [ended(7)]);
    house.end().await;
}

/// A sudo that wants no password and has its command read its input.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_needs_no_password_finds_the_end_of_its_input() {
    let place = Place::new();
    let house = place.open().await;
    let (desk, mut wanted) = tokio::sync::mpsc::channel(1);
    house.pipelines.set_password_desk(Some(desk));
    for sudo in ["#!/bin/sh\nexec cat\n", "#!/bin/sh\ncat\necho after\n"] {
        let sudo = program(place.path(), "sudo", sudo);
        house.pipelines.set_programs(Some(PathBuf::from(&sudo)), None);
        let run = house.start(PlanRequest { privilege: Privilege::Sudo, ..ask(&[&["true"]]) }).await;
        assert_eq!(within("the end", run.clone().finished()).await.unwrap().stages, [OK]);
    }
    assert!(wanted.try_recv().is_err());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pkexec_runs_each_stage_and_missing_ways_to_root_are_named() {
    let place = Place::new();
    let house = place.open().await;
    let pkexec = program(place.path(), "pkexec", SUDO);
    house.pipelines.set_programs(Some("/no/such/sudo".into()), Some(PathBuf::from(&pkexec)));
    let asked = PlanRequest {
        privilege: Privilege::Pkexec,
        env: [("LANG".to_owned(), "C".to_owned())].into(),
        display: [("DISPLAY".to_owned(), ":7".to_owned())].into(),
        ..ask(&[&["true", "-x"], &["cat", "--", "y"]])
    };
    let run = house.start(asked).await;
    assert_eq!(run.clone().finished().await.unwrap().stages, [OK, OK]);
    let said = String::from_utf8(run.stdout().read().await.unwrap()).unwrap();
    assert!(said.starts_with('/') && said.ends_with("cat\n--\ny\n"), "{said}");
    let env = String::from_utf8(run.stderr(0).read().await.unwrap()).unwrap();
    assert!(env.contains("DISPLAY=:7\n") && env.contains("LANG=C\n") && !env.contains("USER="), "{env}");
    let asked = PlanRequest { privilege: Privilege::Sudo, ..ask(&[&["true"]]) };
    let RunError::NotRun(why) = house.carry_out(asked).await.unwrap_err() else { panic!("it ran") };
    assert!(why.contains("/no/such/sudo"), "{why}");
    house.end().await;
}

/// Where the house of somebody who is not root is; without it that test is nothing.
const UNPRIVILEGED: &str = "HOSTEL_TEST_UNPRIVILEGED";
/// A program with which anybody becomes root.
const TO_ROOT: &str = "HOSTEL_TEST_TO_ROOT";
const NOBODY: u32 = 65534;

/// A house of somebody who may not kill what he started.
#[tokio::test(flavor = "multi_thread")]
async fn the_house_of_somebody_who_is_not_root() {
    let Some(path) = std::env::var_os(UNPRIVILEGED).map(PathBuf::from) else { return };
    let place = Place::at(&path);
    let house = place.open().await;
    let (to_root, sleep) = (std::env::var(TO_ROOT).unwrap(), Sleep::new());
    let approval = house.approve(ask(&[&[&to_root, "--reuid=0", "sleep", &sleep.0]])).await;
    let run = house.pipelines.run(&approval).await.unwrap();
    until("it became root", async || sleep.count(), |count| *count == 1).await;
    run.kill("the requester left");
    let error = within("the end of the pipeline", run.clone().finished()).await.unwrap_err();
    assert_eq!(error, RunError::Killed("the requester left".to_owned()));
    let outcome = run.outcome().unwrap();
    assert_eq!((outcome.unkillable.len(), sleep.count()), (1, 1));
    // It has no end to tell of.
    assert_eq!(outcome.stages, [StageEnd { exit_code: -1, signal: None, stderr_truncated: false }]);
    assert_eq!(house.recorded(&approval.id).await.unkillable, outcome.unkillable);
    let records = house.approvals.audit().show(0, 100).await.unwrap();
    assert!(records.iter().any(|record| record.body.to_string().contains("unkillable")), "it is audited");
    std::fs::write(path.join("left"), outcome.unkillable[0].to_string()).unwrap();
}

#[test]
fn a_child_that_may_not_be_killed_is_told_of() {
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
    let Some(setpriv) = setpriv.filter(|_| rustix::process::geteuid().is_root()) else {
        eprintln!("skipped: needs root and setpriv");
        return;
    };
    // Somebody else must be able to reach the programs and own the house. Directories for temporary files often refuse
    // set-user-ID programs; this one rarely does.
    let place = Place::new();
    let programs = tempfile::tempdir_in("/var/tmp").unwrap();
    for directory in ["deps", "examples"] {
        std::fs::create_dir(programs.path().join(directory)).unwrap();
    }
    let own = programs.path().join("deps/test");
    std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    std::fs::copy(support::keeper_program(), programs.path().join("examples/keeper")).unwrap();
    let to_root = programs.path().join("to-root");
    std::fs::copy(setpriv, &to_root).unwrap();
    std::fs::set_permissions(&to_root, std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["", "run", "journal"] {
        std::os::unix::fs::chown(place.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let as_nobody = |program: &Path| {
        let mut command = std::process::Command::new(setpriv);
        command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string(), "--clear-groups"]);
        command.arg(program).current_dir("/");
        command
    };
    if !as_nobody(&to_root).args(["--reuid=0", "true"]).status().unwrap().success() {
        eprintln!("skipped: set-user-ID programs do not work here");
        return;
    }
    let status = as_nobody(&own)
        .args(["--exact", "pipelines::the_house_of_somebody_who_is_not_root", "--nocapture"])
        .env(UNPRIVILEGED, place.path())
        .env(TO_ROOT, &to_root)
        .status()
        .unwrap();
    let left = std::fs::read_to_string(place.path().join("left"));
    place.kill_keeper();
    let pid = rustix::process::Pid::from_raw(left.unwrap().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_quick() {
    let place = Place::new();
    let house = place.open().await;
    let (width, each) = if cfg!(debug_assertions) { (8, 25) } else { (8, 400) };
    let began = Instant::now();
    let one = async |_: usize| {
        for _ in 0..each {
            let run = house.start(ask(&[&["true"]])).await;
            assert_eq!(run.clone().finished().await.unwrap().stages, [OK]);
            assert!(run.stdout().read().await.unwrap().is_empty());
            run.discard();
        }
    };
    tokio::join!(one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7));
    let (took, runs) = (began.elapsed().as_secs_f64(), f64::from(width * each));
    let micros = |ticks: u64| ticks as f64 * 10_000.0 / runs;
    let after = [processor_time(std::process::id()), processor_time(house.processes.keeper_status().pid)];
    let [[daemon, _], [keeper, children]] = after;
    eprintln!(
        "{:.0} runs a second, {width} at once, with their approvals; processor time of one in microseconds: daemon {:.0}, keeper {:.0}, command {:.0}",
        runs / took,
        micros(daemon),
        micros(keeper),
        micros(children)
    );
    until("all are forgotten", async || house.processes.list().len(), |left| *left == 0).await;
    house.end().await;
}
