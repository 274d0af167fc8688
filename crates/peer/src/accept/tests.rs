use std::io::Read as _;
use std::net::Shutdown;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

type Notes = Arc<Mutex<Vec<String>>>;

fn noting(gate: Gate) -> (Gate, Notes) {
    let notes = Notes::default();
    let kept = Arc::clone(&notes);
    let gate = gate.on_notice(move |notice| {
        kept.lock().push(match notice {
            Notice::AcceptFailed(error) => format!("accept: {error}"),
            Notice::TurnedAway { reason, .. } => reason.to_string(),
            Notice::Panicked(_) => "panicked".to_owned(),
        });
    });
    (gate, notes)
}

/// Answers each connection with a letter, and holds it until the client leaves: `y` with a place, `s` as a stranger, `n`
/// without a place.
async fn answer<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(mut stream: S, place: Option<Place>) {
    let letter = match &place {
        Some(place) if place.is_strangers() => b"s",
        Some(_) => b"y",
        None => b"n",
    };
    stream.write_all(letter).await.unwrap();
    let mut rest = [0];
    let expired = async {
        match &place {
            Some(place) => place.expired().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = stream.read(&mut rest) => {}
        () = expired => {}
    }
}

struct Running {
    address: SocketAddr,
    notes: Notes,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<usize>,
}

impl Running {
    async fn start(gate: Gate) -> Self {
        let (gate, notes) = noting(gate);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let serve = |arrival: Arrival<TcpStream>| answer(arrival.stream, arrival.place);
            let (_, mut open) = serve_each(&listener, &gate, stopped, serve).await;
            let count = open.len();
            open.shutdown().await;
            count
        });
        Running { address, notes, stop: Some(stop), task }
    }

    /// A client of this process, and the letter it gets.
    async fn client(&self) -> (TcpStream, Option<u8>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut letter = [0];
        let read = stream.read(&mut letter).await;
        (stream, (read.unwrap_or_default() == 1).then_some(letter[0]))
    }

    /// A client of another user. It says what it got and stays until its input ends.
    fn other_user(&self, uid: u32) -> (Child, Option<u8>) {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{}; IFS= read -r -n 1 letter <&3; printf '%s\\n' \"$letter\"; read line",
            self.address.port()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).uid(uid).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut said = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        (child, (said[0] != b'\n').then_some(said[0]))
    }

    async fn end(mut self) -> usize {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap()
    }
}

fn leave(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can become somebody else");
    }
    is_root
}

#[tokio::test]
async fn the_owner_has_a_place_and_one_too_many_is_told_closed_or_waits() {
    for (when_full, expected) in [(WhenFull::Tell, Some(b'n')), (WhenFull::Close, None)] {
        let door = Running::start(Gate::new(Admits::Owner, 1, when_full)).await;
        let (first, letter) = door.client().await;
        assert_eq!(letter, Some(b'y'));
        assert_eq!(door.client().await.1, expected);
        drop(first);
        loop {
            if let (_stream, Some(b'y')) = door.client().await {
                break;
            }
        }
        let full = Reason::Full.to_string();
        assert_eq!(door.notes.lock().contains(&full), when_full == WhenFull::Close);
    }
    let door = Running::start(Gate::new(Admits::Owner, 1, WhenFull::Wait)).await;
    let (first, _) = door.client().await;
    let mut second = TcpStream::connect(door.address).await.unwrap();
    let mut letter = [0];
    assert!(tokio::time::timeout(Duration::from_millis(50), second.read(&mut letter)).await.is_err(), "it waits");
    drop(first);
    assert_eq!((second.read(&mut letter).await.unwrap(), letter), (1, *b"y"));
    assert_eq!(door.end().await, 1, "who is still served is given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_users_are_closed_or_strangers_and_never_take_the_owners_places() {
    if !is_root() {
        return;
    }
    let limits = StrangerLimits { total: 3, per_source: 2, time: Duration::from_secs(600) };
    let door = Running::start(Gate::new(Admits::Owner, 4, WhenFull::Wait)).await;
    let (child, letter) = door.other_user(65533);
    assert_eq!(letter, None);
    assert_eq!(*door.notes.lock(), ["another user (uid 65533)"]);
    leave(child);
    let door = Running::start(Gate::new(Admits::Everybody, 1, WhenFull::Wait).strangers(limits)).await;
    let visitors: Vec<_> = (0..3).map(|_| door.other_user(65533)).collect();
    assert_eq!(visitors.iter().map(|(_, letter)| *letter).collect::<Vec<_>>(), [Some(b's'), Some(b's'), None]);
    let (other, letter) = door.other_user(65532);
    assert_eq!(letter, Some(b's'), "each user has a share");
    let (another, letter) = door.other_user(65531);
    assert_eq!(letter, None, "and all together have an end");
    assert_eq!(door.client().await.1, Some(b'y'), "none of which concerns the owner");
    visitors.into_iter().map(|(child, _)| child).chain([other, another]).for_each(leave);
    let nobody = Gate::new(Admits::OwnerAndElsewhere { proxies: Vec::new() }, 1, WhenFull::Wait);
    assert!(nobody.proxies().is_empty(), "root runs a proxy only where that is said");
    let elsewhere = Admits::OwnerAndElsewhere { proxies: vec![65533] };
    let door = Running::start(Gate::new(elsewhere, 1, WhenFull::Wait).strangers(limits)).await;
    let visitors = [door.other_user(65533), door.other_user(65533), door.other_user(65533), door.other_user(65532)];
    let letters = visitors.each_ref().map(|(_, letter)| *letter);
    assert_eq!(letters, [Some(b's'), Some(b's'), Some(b's'), None], "a proxy speaks for many, others for nobody");
    visitors.into_iter().map(|(child, _)| child).for_each(leave);
    // The door notices only after a while that the others have left; until then there is no place.
    let letter = loop {
        if let (_stream, Some(letter)) = door.client().await {
            break letter;
        }
    };
    assert_eq!(letter, b's', "the owner shows a token there as well");
}

#[tokio::test]
async fn a_stranger_is_admitted_once_or_runs_out_of_time() {
    let time = Duration::from_millis(50);
    let gate =
        Gate::new(Admits::Everybody, 1, WhenFull::Wait).strangers(StrangerLimits { total: 2, per_source: 2, time });
    let ends = Ends { theirs: "192.0.2.1:1".parse().unwrap(), ours: "192.0.2.2:1".parse().unwrap() };
    let stranger = async || gate.judge(&Peer::of_tcp(ends), None).await.unwrap().unwrap();
    let (first, second) = (stranger().await, stranger().await);
    assert!(matches!(gate.judge(&Peer::of_tcp(ends), None).await, Err(Reason::TooManyStrangers)));
    assert!(first.is_strangers() && first.admit().await && !first.is_strangers() && first.admit().await);
    let third = stranger().await;
    assert!(!second.admit().await, "all places are taken, and its time is over");
    assert!(!second.admit().await);
    third.expired().await;
    assert!(tokio::time::timeout(2 * time, first.expired()).await.is_err(), "who was admitted has all the time");
    drop(first);
    assert!(stranger().await.admit().await);
    let owners = Gate::new(Admits::Owner, 1, WhenFull::Wait);
    assert!(matches!(owners.judge(&Peer::of_tcp(ends), None).await, Err(Reason::Remote)));
    let nobody = Ends { theirs: "127.0.0.1:1".parse().unwrap(), ours: "127.0.0.1:2".parse().unwrap() };
    assert!(matches!(owners.judge(&Peer::of_tcp(nobody), None).await, Err(Reason::Unknown)));
    assert!(matches!(owners.judge(&Peer::unknown(), None).await, Err(Reason::Unknown)));
}

#[tokio::test]
async fn a_unix_door_lets_the_owner_in_and_a_panic_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join("s")).unwrap();
    let (gate, notes) = noting(Gate::new(Admits::OwnerAndRoot, 2, WhenFull::Close));
    let client = async {
        let mut stream = UnixStream::connect(directory.path().join("s")).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        while notes.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let serve = |arrival: Arrival<UnixStream>| async move {
        assert_eq!(arrival.peer.pid(), Some(std::process::id()));
        drop(arrival);
        panic!("on purpose");
    };
    serve_each(&listener, &gate, client, serve).await;
    assert_eq!(*notes.lock(), ["panicked"]);
}

/// Fails until it is told not to.
struct Broken(Mutex<Vec<Instant>>);

impl Listener for Broken {
    type Stream = std::net::TcpStream;

    async fn next(&self, _: &Arc<[u32]>) -> io::Result<(std::net::TcpStream, Peer)> {
        self.0.lock().push(Instant::now());
        Err(io::Error::from_raw_os_error(24))
    }
}

#[tokio::test(start_paused = true)]
async fn without_descriptors_it_is_tried_again_but_not_all_the_time() {
    let listener = Broken(Mutex::default());
    let (gate, notes) = noting(Gate::new(Admits::Owner, 1, WhenFull::Wait));
    let serve = |arrival: Arrival<std::net::TcpStream>| async move {
        arrival.stream.shutdown(Shutdown::Both).unwrap();
    };
    serve_each(&listener, &gate, tokio::time::sleep(Duration::from_secs(10)), serve).await;
    let tries = listener.0.lock().len();
    assert!((10..=30).contains(&tries), "{tries}");
    assert!(notes.lock().iter().all(|note| note.starts_with("accept: ")) && !notes.lock().is_empty());
}
