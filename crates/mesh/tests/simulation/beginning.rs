//! How a mesh comes to be: enrolled through the real doors of the broker, everybody subscribed and with the keys they
//! need, then closed. Stories begin with a copy of its files, so that the beginning is lived through once.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use hostel_mesh::InviteRequest;
use hostel_mesh::cold::{Cold, ColdOptions};
use hostel_mesh::enrol::{Create, Enrol};
use hostel_mesh::home::{Membership, Places};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::simulation::chance;
use crate::simulation::ledger::{FICKLE, STEADY};
use crate::simulation::machine::Machine;
use crate::simulation::world::{Order, TOKEN, URL, World, directory};

/// The most hosts a story has.
pub const MOST: usize = 5;

/// Files and members of a mesh that rests.
pub struct Beginning {
    dir: TempDir,
    members: Vec<Membership>,
    now_ms: u64,
}

/// A mesh of so many hosts.
pub fn beginning(hosts: usize) -> &'static Beginning {
    static MADE: [OnceLock<Beginning>; MOST + 1] = [const { OnceLock::new() }; MOST + 1];
    // The numbers on this thread are its own, whoever happens to need it first.
    MADE[hosts].get_or_init(|| chance::seeded(hosts as u64, || make(hosts)))
}

impl Beginning {
    /// A world that goes on from here.
    pub fn world(&self, seed: u64) -> World {
        let dir = directory();
        copy(self.dir.path(), dir.path());
        World::new(seed, dir, self.members.clone(), self.members.len(), self.now_ms)
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn make(hosts: usize) -> Beginning {
    let mut world = World::new(0, directory(), Vec::new(), hosts, 0);
    world.start_broker();
    let members = Arc::new(Mutex::new(Vec::new()));
    let diallers = (0..hosts).map(|host| world.network.dialler(host)).collect::<Vec<_>>();
    let (made, path, clock) = (Arc::clone(&members), world.dir.path().to_owned(), world.clock(0));
    // One machine enrols everybody; later each lives on its own.
    world.hosts[0].machine = Some(Machine::start(0, async move {
        let mut invite: Option<String> = None;
        for (host, dial) in diallers.into_iter().enumerate() {
            let home = path.join(format!("h{host}"));
            let enrol = Enrol::new(Places::at(home.join("config"), home.join("daemon")), clock.clone());
            let enrol = enrol.with_dial(Arc::clone(&dial));
            let name = format!("h{host}");
            let member = match &invite {
                Some(link) => enrol.join(link, &name).await.unwrap().membership,
                None => {
                    let (broker_url, name_of_mesh) = (URL.to_owned(), "lab".to_owned());
                    let create = Create {
                        broker_url,
                        admin_token: Some(TOKEN.to_owned().into()),
                        name: name_of_mesh,
                        display_name: name,
                        cert: None,
                    };
                    let member = enrol.create(create).await.unwrap();
                    let cold = Cold::connect(ColdOptions {
                        slug: member.slug.clone(),
                        mesh_id: member.mesh_id.clone(),
                        member_id: member.member_id.clone(),
                        member_key: member.key.clone(),
                        root_key: member.root_key.clone(),
                        owner_key: member.owner_key.clone(),
                        certificate: None,
                        display_name: "h0".to_owned(),
                        broker_urls: member.broker_urls.clone(),
                        dial,
                        clock: clock.clone(),
                        dir: None,
                    });
                    let cold = cold.await.unwrap();
                    let request = InviteRequest { max_uses: Some(100), ..InviteRequest::default() };
                    invite = Some(cold.invite_create(request).await.unwrap().invite);
                    cold.leave().await;
                    member
                }
            };
            made.lock().push(member);
        }
    }));
    world.pass(60_000);
    world.crash(Some(0), true);
    world.members = std::mem::take(&mut *members.lock());
    assert_eq!(world.members.len(), hosts, "enrolling took too long");
    (0..hosts).for_each(|host| world.start(host));
    world.pass(10_000);
    for host in 0..hosts {
        assert!(world.order(host, Order::Subscribe(STEADY, true)));
        world.pass(1_000);
    }
    assert!(world.order(0, Order::Subscribe(FICKLE, true)));
    world.pass(60_000);
    (0..hosts).for_each(|host| assert!(world.order(host, Order::Stop)));
    world.pass(10_000);
    (0..hosts).for_each(|host| world.crash(Some(host), true));
    world.pass(1_000);
    world.crash(None, true);
    let wrong = world.ledger.lock().wrong.clone();
    assert!(wrong.is_empty(), "{wrong:?}");
    Beginning { now_ms: world.now_ms(), members: world.members, dir: world.dir }
}
