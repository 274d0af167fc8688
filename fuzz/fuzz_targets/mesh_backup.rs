//! What a backup of a mesh holds, of any content: it is refused, or what is put back is a membership that can be read and
//! files in the mesh's own directory and nowhere else, and never a token.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use hostel_mesh::home::backup::{Kept, collect};
use hostel_mesh::home::{Memberships, Places};
use hostel_wire::topic::is_mesh_slug;
use libfuzzer_sys::fuzz_target;

static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("mesh-backup-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory");
    path
});

fuzz_target!(|bytes: &[u8]| {
    let kept = match Kept::read(bytes) {
        Ok(kept) => kept,
        Err(error) => {
            assert!(!error.to_string().contains('\n'));
            return;
        }
    };
    let slug = kept.membership().slug.clone();
    assert!(is_mesh_slug(&slug));
    fs::remove_dir_all(&*SCRATCH).ok();
    let places = Places::at(SCRATCH.join("config"), SCRATCH.join("daemons"));
    kept.restore(&places, false, 1).expect("an empty place takes it");
    assert_eq!(Memberships::load(&places).expect("it can be read").all().len(), 1);
    let daemons: Vec<_> = fs::read_dir(places.daemon_root()).expect("there").flatten().map(|e| e.file_name()).collect();
    assert_eq!(daemons, [slug.as_str()]);
    let dir = places.mesh(&slug);
    assert!(!dir.local_token().exists() && !dir.host_fingerprint().exists());
    // What was put back can be taken again, and says the same.
    let again = collect(&places, &slug, "fuzz", 2).expect("it is a membership");
    assert_eq!(Kept::read(&again).expect("our own writing").membership().key, kept.membership().key);
});
