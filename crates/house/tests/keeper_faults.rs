//! What must hold when things go wrong around the keeper: refused upgrades, full disks, large input, strangers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostel_house::processes::Processes;
use hostel_keeper::proto::{Hello, PROTOCOL, Role};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use support::{TestHouse, hear, install, keeper_program, limit, opened, shell, until, within};

/// The numbered lines a shell loop prints.
fn numbered(prefix: &str, count: usize) -> String {
    (0..count).map(|number| format!("{prefix}{number}\n")).collect()
}

fn keeper_pid(processes: &Processes) -> Pid {
    Pid::from_raw(processes.keeper_status().pid as i32).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn input_larger_than_a_frame_is_applied_whole() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let bystander = processes.spawn(shell("bystander", "cat")).await.unwrap();
    let process = processes.spawn(shell("count", "wc -c")).await.unwrap();
    let data = vec![b'x'; 3 * 1024 * 1024];
    let applied = process.stdin(Some(0), &data).await.unwrap().done().await;
    assert_eq!(bystander.status().exit, None, "somebody else's process was given up");
    assert_eq!(applied.unwrap().applied, data.len() as u64);
    process.close_stdin().await.unwrap();
    let heard = hear(&process, 0).await;
    assert_eq!(String::from_utf8(heard.stdout).unwrap().trim(), data.len().to_string());
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_merely_succeeds_is_no_keeper() {
    let house = TestHouse::new();
    let (processes, place) = house.open_with_own_program().await;
    let process = processes.spawn(shell("cat", "cat")).await.unwrap();
    let before = processes.keeper_status();
    install(Path::new("/bin/true"), &place);
    processes.upgrade_keeper(opened(&place)).await.expect_err("/bin/true became the keeper");
    assert_eq!(processes.keeper_status().pid, before.pid);
    process.stdin(None, b"still here\n").await.unwrap().done().await.unwrap();
    process.close_stdin().await.unwrap();
    assert_eq!(hear(&process, 0).await.stdout, b"still here\n");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrapper_that_cannot_be_executed_by_descriptor_leaves_a_working_house() {
    let house = TestHouse::new();
    let (processes, place) = house.open_with_own_program().await;
    let process = processes.spawn(shell("cat", "cat")).await.unwrap();
    // Its interpreter would have to open it by a name, which could lead to something else by then.
    let script = house.path().join("wrapper");
    let program = house.options().program;
    std::fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", program.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&script, &place).unwrap();
    let outcome = within("the upgrade", processes.upgrade_keeper(opened(&place))).await;
    outcome.expect_err("a script was executed by descriptor");
    let sent = async { process.stdin(None, b"still here\n").await.unwrap().done().await.unwrap() };
    within("input to be taken", sent).await;
    process.close_stdin().await.unwrap();
    assert_eq!(hear(&process, 0).await.stdout, b"still here\n");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn input_goes_on_while_the_keeper_replaces_itself() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes.spawn(shell("cat", "cat")).await.unwrap();
    let expected = numbered("line ", 3000);
    let writer = {
        let (process, text) = (Arc::clone(&process), expected.clone());
        tokio::spawn(async move {
            let mut offset = 0;
            for line in text.split_inclusive('\n') {
                let ticket = process.stdin(Some(offset), line.as_bytes()).await.expect("refused in mid-upgrade");
                offset = ticket.done().await.expect("lost in mid-upgrade").applied;
            }
        })
    };
    for _ in 0..10 {
        processes.upgrade_keeper(opened(&house.options().program)).await.unwrap();
    }
    writer.await.unwrap();
    process.close_stdin().await.unwrap();
    assert_eq!(String::from_utf8(hear(&process, 0).await.stdout).unwrap(), expected);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_grows_when_it_is_written_down_is_refused_or_works() {
    let house = TestHouse::new();
    let processes = house.open().await;
    match processes.spawn(shell(&"\u{1}".repeat(3000), "echo out")).await {
        Err(_) => {}
        Ok(process) => assert_eq!(hear(&process, 0).await.stdout, b"out\n"),
    }
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_quota_does_not_hide_the_end_of_a_process_that_prints_nothing() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let first = processes.spawn(shell("first", "head -c 3000000 /dev/zero")).await.unwrap();
    first.wait_exit(limit()).await.unwrap();
    processes.set_limits(1 << 20, 0, 0).await;
    let silent = processes.spawn(shell("silent", "exit 3")).await.unwrap();
    let exit = silent.wait_exit(limit()).await;
    assert_eq!(exit.map(|exit| exit.code), Some(3));
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

/// Prints numbered lines on both streams, far more than the disk holds.
const BOTH: &str = "i=0; while [ $i -lt 60000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_of_two_busy_streams() {
    let Some(house) = TestHouse::small("4m") else { return };
    let processes = house.open().await;
    let filler = house.journal().join("filler");
    std::fs::write(&filler, vec![0; 3_800_000]).unwrap();
    let process = processes.spawn(shell("both", BOTH)).await.unwrap();
    // Space comes and goes, so that the disk fills up again and again.
    for size in (0..38).rev() {
        until("held or over", async || process.status(), |now| now.held.is_some() || !now.running).await;
        let before = process.status().last_seq;
        std::fs::File::options().write(true).open(&filler).unwrap().set_len(size * 100_000).unwrap();
        until("going on or over", async || process.status(), |now| now.last_seq > before || !now.running).await;
    }
    let heard = hear(&process, 0).await;
    let (out, err) = (String::from_utf8(heard.stdout).unwrap(), String::from_utf8(heard.stderr).unwrap());
    assert!(out == numbered("out", 60000), "stdout has {} bytes of {}", out.len(), numbered("out", 60000).len());
    assert!(err == numbered("err", 60000), "stderr has {} bytes of {}", err.len(), numbered("err", 60000).len());
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_on_a_full_disk_loses_nothing() {
    let Some(house) = TestHouse::small("4m") else { return };
    let processes = house.open().await;
    let filler = house.journal().join("filler");
    std::fs::write(&filler, vec![0; 3_600_000]).unwrap();
    let expected = numbered("out", 100_000);
    let source = house.path().join("source");
    std::fs::write(&source, &expected).unwrap();
    let process = processes.spawn(shell("one", &format!("cat {}", source.display()))).await.unwrap();
    until("held", async || process.status(), |now| now.held.is_some()).await;
    for _ in 0..3 {
        processes.upgrade_keeper(opened(&house.options().program)).await.unwrap();
        until("held again", async || process.status(), |now| now.held.is_some()).await;
    }
    std::fs::remove_file(&filler).unwrap();
    let heard = String::from_utf8(hear(&process, 0).await.stdout).unwrap();
    let at = heard.bytes().zip(expected.bytes()).position(|(a, b)| a != b);
    assert!(heard == expected, "{} bytes of {}, first difference at {at:?}", heard.len(), expected.len());
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_upgrade_does_not_deafen_a_process_that_was_held() {
    let Some(house) = TestHouse::small("4m") else { return };
    let (processes, place) = house.open_with_own_program().await;
    install(Path::new("/bin/false"), &place);
    let filler = house.journal().join("filler");
    for round in 0..5 {
        std::fs::write(&filler, vec![0; 3_700_000]).ok();
        let script = "i=0; while [ $i -lt 60000 ]; do echo out$i; i=$((i+1)); done; echo end";
        let process = processes.spawn(shell(&format!("p{round}"), script)).await.unwrap();
        until("held", async || process.status(), |now| now.held.is_some()).await;
        std::fs::remove_file(&filler).unwrap();
        processes.upgrade_keeper(opened(&place)).await.unwrap_err();
        let exit = process.wait_exit(limit()).await;
        assert_eq!(exit.map(|exit| exit.code), Some(0), "round {round}: no news any more");
        processes
            .collect_garbage(hostel_house::processes::Retention { max_count: 0, ..Default::default() }, false)
            .await
            .unwrap();
    }
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_file_sizes_holds_a_child_and_not_the_keeper() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let none = Rlimit { current: None, maximum: None };
    let keeper = keeper_pid(&processes);
    rustix::process::prlimit(Some(keeper), Resource::Fsize, Rlimit { current: Some(300_000), maximum: None }).unwrap();
    let process = processes.spawn(shell("flood", "head -c 1000000 /dev/zero; echo done")).await.unwrap();
    until("held or lost", async || process.status(), |now| now.held.is_some() || !now.running).await;
    assert_eq!(process.status().exit, None, "the keeper died of it");
    rustix::process::prlimit(Some(keeper), Resource::Fsize, none).unwrap();
    assert_eq!(hear(&process, 0).await.stdout.len(), 1_000_005);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_connection_for_notes_does_not_deafen_the_daemon() {
    use std::io::{Read as _, Write as _};
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes.spawn(shell("cat", "cat")).await.unwrap();
    // What a daemon does that was superseded between its two greetings.
    let mut late = std::os::unix::net::UnixStream::connect(house.path().join("run/keeper.sock")).unwrap();
    let mut hello = Vec::new();
    Hello {
        proto_min: PROTOCOL,
        proto_max: PROTOCOL,
        role: Role::Notes,
        build: "late".to_owned(),
        started: u64::MAX,
        notes_key: None,
    }
    .encode(1, &mut hello);
    late.write_all(&hello).unwrap();
    late.set_read_timeout(Some(limit())).unwrap();
    assert_ne!(late.read(&mut [0; 4096]).unwrap(), 0, "it is told that it is too late");
    drop(late);
    process.stdin(None, b"heard\n").await.unwrap().done().await.unwrap();
    process.close_stdin().await.unwrap();
    assert_eq!(hear(&process, 0).await.stdout, b"heard\n");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_grace_is_no_reason_to_fall_over() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes
        .spawn(shell("cat", "trap 'echo bye; exit 6' TERM; echo ready; while :; do sleep 0.1; done"))
        .await
        .unwrap();
    until("it is ready", async || process.status(), |now| now.last_seq > 0).await;
    let answer = within("the keeper to stop", processes.stop_keeper(Duration::from_millis(u64::MAX))).await;
    assert_eq!(answer, Ok(0));
    let again = house.open().await;
    assert_eq!(again.get("cat").unwrap().status().exit.map(|exit| (exit.code, exit.lost)), Some((6, false)));
    again.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_greets_a_keeper_in_mid_upgrade_learns_the_truth() {
    let house = TestHouse::new();
    let mut current = house.open().await;
    for number in 0..200 {
        let process = current.spawn(shell(&format!("p{number}"), "echo one; echo two")).await.unwrap();
        process.wait_exit(limit()).await.unwrap();
    }
    for round in 0..20 {
        let program = house.options().program;
        let older = current.clone();
        let upgrade = tokio::spawn(async move { older.upgrade_keeper(opened(&program)).await.ok() });
        let next = house.open().await;
        for number in 0..200 {
            let status = next.get(&format!("p{number}")).unwrap().status();
            assert!(status.last_seq >= 2, "round {round}, process {number}: {status:?}");
        }
        upgrade.abort();
        current = next;
    }
    current.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_a_replaced_process_can_still_be_read_by_its_identity() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let older = processes.spawn(shell("same", "echo older")).await.unwrap();
    older.wait_exit(limit()).await.unwrap();
    let newer = processes.spawn(shell("same", "echo newer")).await.unwrap();
    newer.wait_exit(limit()).await.unwrap();
    let found = processes.by_id(older.id()).unwrap();
    assert_eq!(hear(&found, 0).await.stdout, b"older\n");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_upgrade_is_told_of_every_process() {
    let house = TestHouse::new();
    let (processes, place) = house.open_with_own_program().await;
    let process = processes.spawn(shell("cat", "exec sleep 1000")).await.unwrap();
    install(Path::new("/bin/true"), &place);
    let upgraded = processes.upgrade_keeper(opened(&place)).await.is_ok();
    // The next keeper is started from the same place.
    install(&keeper_program(), &place);
    if upgraded {
        let exit = process.wait_exit(limit()).await;
        assert_eq!(exit.map(|exit| exit.lost), Some(true), "the keeper is another one, and nobody said so");
    }
    let keeper = keeper_pid(&processes);
    rustix::process::kill_process(keeper, Signal::KILL).unwrap();
    process.wait_exit(limit()).await.expect("lost");
    processes.spawn(shell("next", "true")).await.unwrap();
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}
