//! What it costs to look at a peer.

use std::time::{Duration, Instant};

use hostel_peer::{Ends, Peer, Standing};

use crate::helper::{Door, program};

async fn mean(mut look: impl AsyncFnMut()) -> Duration {
    const ROUNDS: u32 = 500;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        look().await;
    }
    begun.elapsed() / ROUNDS
}

#[tokio::test]
#[ignore = "a measurement"]
async fn what_a_look_costs() {
    let door = Door::open();
    let visit = door.visit(program("client", &door.socket()));
    let stream = visit.stream.as_ref().unwrap();
    let first = mean(async || assert_eq!(Peer::of_unix(stream).standing().await, Standing::Owner)).await;
    let again = mean(async || assert_eq!(visit.peer.standing().await, Standing::Owner)).await;
    let info = mean(async || assert!(Peer::of_unix(stream).info().await.is_some())).await;
    let capture = mean(async || assert!(Peer::of_unix(stream).pid().is_some())).await;
    println!("unix: captured in {capture:?}, first standing {first:?}, with who it is {info:?}, again {again:?}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, theirs) = listener.accept().unwrap();
    let ends = Ends { theirs, ours: server.local_addr().unwrap() };
    let kept = Peer::of_tcp(ends);
    let first = mean(async || assert_eq!(Peer::of_tcp(ends).standing().await, Standing::Owner)).await;
    let again = mean(async || assert_eq!(kept.standing().await, Standing::Owner)).await;
    println!("tcp: first standing {first:?}, again {again:?}");
}
