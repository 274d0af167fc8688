//! Whatever a broker answers to somebody who joins: a membership with the mesh's own root key that can be read again, or
//! a refusal that says why; the invite's secret is never lost on the way. `$SEALED` in the answer stands for the root key
//! as the inviter has sealed it.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hostel_fuzz::mesh::{Parrot, runtime};
use hostel_mesh::enrol::Enrol;
use hostel_mesh::home::{Memberships, Places};
use hostel_wire::Clock;
use hostel_wire::invite::{InviteLink, Terms};
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

struct World {
    runtime: Runtime,
    scratch: PathBuf,
    link: String,
    sealed: String,
    root: RootKey,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let scratch = std::env::temp_dir().join(format!("mesh-enrol-{}", std::process::id()));
    let terms = Terms {
        mesh_id: "01jh3q5w6e7r8t9y0a1s2d3f4g".into(),
        mesh_slug: "lab".into(),
        broker_url: "ws://broker/ws".into(),
        expires_at: 4_000_000_000,
        role: "member".into(),
    };
    let link = InviteLink::make(&terms, &SecretKey::from_seed(&[9; 32]), None).expect("an invite");
    let root = RootKey::generate();
    let sealed = link.secret.as_ref().expect("a secret").seal_root(&root);
    World { runtime: runtime(), scratch, link: link.text().to_string(), sealed, root }
});

fuzz_target!(|bytes: &[u8]| {
    let world = &*WORLD;
    fs::remove_dir_all(&world.scratch).ok();
    let places = Places::at(world.scratch.join("config"), world.scratch.join("daemons"));
    let answer = replaced(bytes, world.sealed.as_bytes());
    let enrol = Enrol::new(places.clone(), Clock::system()).with_dial(Arc::new(Parrot(answer)));
    let joined = world.runtime.block_on(async {
        let joined = enrol.join(&world.link, "bob").await;
        // Whoever still waits for the other end hears that it is gone, and ends: the clock does not stand in the way.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        joined
    });
    let kept = Memberships::load(&places).expect("our own writing");
    match joined {
        Ok(joined) => {
            let membership = joined.membership;
            assert_eq!((membership.slug.as_str(), membership.mesh_id.as_str()), ("lab", "01jh3q5w6e7r8t9y0a1s2d3f4g"));
            assert!(!membership.member_id.is_empty());
            // A key that is not the one that was sealed would be somebody else's.
            if let Some(root) = &membership.root_key {
                assert_eq!(root.to_b64url(), world.root.to_b64url());
            }
            let kept = kept.find("lab").expect("it was written down");
            assert!(kept.key == membership.key && kept.member_id == membership.member_id);
        }
        Err(error) => {
            assert!(!error.code().is_empty() && !error.to_string().contains('\n'), "{error}");
            assert!(kept.find("lab").is_none(), "nobody has joined");
        }
    }
});

fn replaced(bytes: &[u8], sealed: &[u8]) -> Vec<u8> {
    const MARK: &[u8] = b"$SEALED";
    match bytes.windows(MARK.len()).position(|window| window == MARK) {
        Some(at) => [&bytes[..at], sealed, &bytes[at + MARK.len()..]].concat(),
        None => bytes.to_vec(),
    }
}
