//! Clients that do not read.

use hostel_tests::codecast::Daemon;
use hostel_tests::procfs;

use crate::streams::{complete, numbers};

#[test]
fn a_client_that_does_not_read_stops_nobody() {
    let daemon = Daemon::start();
    let session = daemon.create("claude");
    let mut stalled = daemon.send(&session, "stream 200000");
    // The CLI comes to its end though nothing is read: far more than the sockets can hold.
    daemon.wait_for_status(&session, "idle");
    assert_eq!(daemon.queue(&session)["clientConnected"], true);
    let resident = procfs::resident(daemon.identity().pid);
    assert!(resident < 200 << 20, "the daemon has grown to {resident} bytes");
    let events = stalled.events();
    assert_eq!(events.last().unwrap()["type"], "result");
    complete(200_000, &numbers(&events), &[]);
}

#[test]
fn other_sessions_do_not_wait_for_it() {
    let daemon = Daemon::start();
    let session = daemon.create("claude");
    let stalled = daemon.send(&session, "stream 300000");
    let other = daemon.create("echo");
    // It would wait for ever: nobody reads the other one.
    assert_eq!(daemon.send(&other, "hello").events().len(), 4);
    drop(stalled);
}
