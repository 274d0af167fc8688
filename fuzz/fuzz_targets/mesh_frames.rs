//! Whatever a broker says after its welcome, one frame per line: the daemon is there afterwards and answers, and nothing
//! that nobody has sealed is ever read as a message. A line with `_reqId` answers what the daemon asked first.
#![no_main]

use std::cell::RefCell;
use std::time::Duration;

use hostel_fuzz::mesh::{Scripted, options, runtime};
use hostel_mesh::{Caller, Ending, InboxRequest, Mesh};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Frames of one run at most.
const MOST: usize = 64;

/// A daemon that lives through many runs, as they do.
struct World {
    mesh: Mesh,
    running: JoinHandle<Ending>,
    give: mpsc::Sender<Vec<String>>,
    played: mpsc::Receiver<()>,
    runs: u32,
}

impl World {
    async fn open() -> Self {
        let (dial, give, played) = Scripted::new();
        let mesh = Mesh::open(options(dial)).await.expect("a mesh in memory");
        let running = tokio::spawn({
            let mesh = mesh.clone();
            async move { mesh.run().await }
        });
        Self { mesh, running, give, played, runs: 0 }
    }

    /// Whether the daemon goes on.
    async fn play(&mut self, script: Vec<String>) -> bool {
        self.give.send(script).await.expect("the broker takes a script");
        tokio::select! {
            ended = &mut self.running => {
                let ending = ended.expect("a daemon that panics is a finding");
                // A broker may say that the member is out, or that it lacks what the daemon needs; it may not break it.
                assert!(matches!(ending, Ending::Revoked | Ending::MissingFeatures(_)), "{ending:?}");
                return false;
            }
            played = self.played.recv() => assert!(played.is_some()),
        }
        let health = self.mesh.health().await;
        assert_eq!(health.mesh, "lab");
        let request = InboxRequest { limit: 1000, ..InboxRequest::default() };
        match self.mesh.inbox(request, &Caller::Member).await {
            Ok(page) => assert!(page.items.iter().all(|item| item.body.is_none()), "an unsealed message was read"),
            Err(refusal) => assert_eq!(refusal.code(), "member_revoked"),
        }
        assert!(!self.mesh.metrics_text().await.is_empty());
        self.runs += 1;
        // What was learnt is forgotten now and then, so that findings need only a few runs.
        self.runs < 200
    }
}

thread_local! {
    static RUNTIME: (Runtime, RefCell<Option<World>>) = (runtime(), RefCell::new(None));
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let script: Vec<String> = text.lines().take(MOST).map(str::to_owned).collect();
    RUNTIME.with(|(runtime, place)| {
        let mut place = place.borrow_mut();
        runtime.block_on(async {
            let mut world = match place.take() {
                Some(world) => world,
                None => World::open().await,
            };
            let played = tokio::time::timeout(Duration::from_secs(3600), world.play(script)).await;
            if played.expect("no script takes an hour") {
                *place = Some(world);
            } else {
                world.mesh.shutdown();
                world.running.abort();
            }
        });
    });
});
