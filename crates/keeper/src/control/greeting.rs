//! Greeting whoever connects: which of two daemons is in charge, and who is given the house key.
//!
//! Invariant: there is one controller. One that the keeper does not recognise never takes the place of one that it does,
//! and never learns the house key. Who is recognised is decided in [`crate::recognition`].

use hostel_journal::ProcessId;

use super::Control;
use crate::conn::Arrived;
use crate::proto::{Builder, Hello, PROTOCOL, Role, Welcome, feature, kind, tag};
use crate::recognition::{is_alive, is_traced};
use crate::state::Command;
use crate::tree;

/// The build that `WELCOME` names.
pub(crate) const BUILD: &str = env!("CARGO_PKG_VERSION");

impl Control {
    pub(super) fn hello(&mut self, index: u32, corr: u64, hello: &Hello) {
        let conn = u64::from(index);
        if hello.proto_min > PROTOCOL || hello.proto_max < 1 {
            return self.refuse(conn, corr, "no common protocol version");
        }
        let recognised = hello.role == Role::Controller && self.recognise(index, hello.started);
        match hello.role {
            // It was replaced and has not heard of it.
            Role::Controller if hello.started < self.controller_started => {
                self.reply(conn, |out| Builder::new(out, kind::SUPERSEDED, 0).finish());
                return self.drop_conn(index);
            }
            Role::Controller if !recognised && self.has_recognised_controller() => {
                return self.refuse(conn, corr, "the daemon of this house is running, and this program is not it");
            }
            Role::Controller => {
                // A program that is not recognised must not keep the daemon out by the time it claims.
                if recognised {
                    self.controller_started = hello.started;
                }
                if let Some(older) = self.controller() {
                    self.supersede(older);
                }
                // Whoever held the old key may not take the notes of the new controller.
                match ProcessId::random() {
                    Ok(random) => self.notes_key = random.0,
                    Err(_) => return self.refuse(conn, corr, "no random numbers"),
                }
            }
            // The key keeps a daemon that lost its place from taking the notes of the next one.
            Role::Notes if hello.notes_key != Some(self.notes_key) => {
                return self.refuse(conn, corr, "another daemon has taken over");
            }
            Role::Notes | Role::Observer => {}
        }
        let welcome = Welcome {
            proto: PROTOCOL.min(hello.proto_max),
            features: feature::ALL,
            keeper_id: self.identity.keeper_id,
            pid: std::process::id(),
            since_ns: self.identity.since_ns,
            build: BUILD.to_owned(),
            child_limit: self.child_limit as u32,
            cgroup: self.cgroups.as_ref().map(|cgroups| cgroups.root().display().to_string()),
            journal: self.journal,
            house_tag: self.identity.house_tag.clone(),
            image_ns: self.image_ns,
            notes_key: (hello.role == Role::Controller).then_some(self.notes_key),
            recognised,
        };
        let Some(entry) = self.conns.get_mut(&index) else { return };
        entry.role = Some(hello.role);
        entry.recognised = recognised;
        let out = entry.output();
        welcome.encode(corr, out);
        let mut count = 0;
        for slot in self.children.iter().filter(|_| hello.role != Role::Notes) {
            slot.state().encode(corr, out);
            count += 1;
        }
        Builder::new(out, kind::SYNCED, corr).u32(tag::COUNT, count).finish();
        self.settle(index);
        if hello.role == Role::Notes
            && let Some(mut entry) = self.conns.remove(&index)
        {
            // The greeting is small and the socket new: it has gone out whole.
            entry.flush();
            rustix::event::epoll::delete(&self.epoll, &entry.fd).ok();
            self.commands.push(Command::Notes(entry.fd));
        }
    }

    fn recognise(&mut self, index: u32, started: u64) -> bool {
        let Some(entry) = self.conns.get(&index) else { return false };
        // What the daemon itself starts (git, for one) is no daemon.
        let controller = self.controller().and_then(|index| self.conns.get(&index)).map(|conn| conn.peer.pid);
        let is_offspring = controller.is_some_and(|controller| {
            controller != entry.peer.pid && tree::descends_from(entry.peer.pid, controller) != Some(false)
        });
        !is_offspring && self.recognition.recognise(&entry.peer, started)
    }

    fn has_recognised_controller(&self) -> bool {
        self.conns.values().any(|conn| conn.role == Some(Role::Controller) && conn.recognised)
    }

    /// Hands the house key to the daemon, which has hidden its memory by now.
    pub(super) fn hand_over_key(&mut self, index: u32, corr: u64) {
        let conn = u64::from(index);
        let Some(entry) = self.conns.get_mut(&index) else { return };
        if !entry.recognised {
            return self.refuse(conn, corr, "only the daemon that the keeper recognises is given the house key");
        }
        if is_traced(entry.peer.pid) || !is_alive(&entry.peer.process) {
            return self.refuse(conn, corr, "a process that is being traced is not given the house key");
        }
        entry.wipe_once_sent();
        let key = &self.house_key;
        Builder::new(entry.output(), kind::KEY, corr).bytes(tag::KEY, key.expose()).finish();
        self.settle(index);
    }

    /// A newer daemon is here: apply what the older one had sent completely, then let it go.
    fn supersede(&mut self, older: u32) {
        if let Some(conn) = self.conns.get(&older) {
            // What was sent stays readable; nothing can be added.
            rustix::net::shutdown(&conn.fd, rustix::net::Shutdown::Read).ok();
        }
        while let Some(conn) = self.conns.get_mut(&older) {
            if conn.receive() != Arrived::Bytes {
                break;
            }
            self.process_input(older);
        }
        self.reply(u64::from(older), |out| Builder::new(out, kind::SUPERSEDED, 0).finish());
        self.drop_conn(older);
    }
}
