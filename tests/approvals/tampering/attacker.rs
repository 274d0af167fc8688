//! The attacker: everything that a process of the same user can do to the files of a house.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use dryoc::classic::crypto_sign::{crypto_sign_detached, crypto_sign_seed_keypair};
use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use hostel_tests::zeroclaw::Peer;
use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::house::{House, PASSPHRASE};

/// A house with a command that waits a long time for its answer.
pub(crate) const SETTINGS: &str = "
[doors.sudo-proxy]
listen = []
approval_wait = \"10m\"
[doors.zeroclaw]
listen = []
[doors.mcp]
enabled = false
";

impl House {
    /// A house with a passphrase whose sudo-proxy door is on our own socket alone.
    pub(crate) fn guarded() -> Self {
        Self::guarded_with("")
    }

    pub(crate) fn guarded_with(more: &str) -> Self {
        let house = House::up_with(&format!("{SETTINGS}{more}"), &[]);
        house.set_passphrase();
        house
    }

    /// The database, as anybody of the same user may open it.
    pub(crate) fn database(&self) -> Connection {
        let database = Connection::open(self.home().join("state.db")).expect("the user may open it");
        database.busy_timeout(Duration::from_secs(20)).expect("a timeout");
        database
    }

    /// Writes to the database.
    pub(crate) fn sql(&self, statements: &str) {
        self.database().execute_batch(statements).unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    /// A row of a table, to be put back later.
    pub(crate) fn copy_row(&self, table: &str, condition: &str) -> SavedRow {
        let database = self.database();
        let mut statement = database.prepare(&format!("SELECT * FROM {table} WHERE {condition}")).expect("a table");
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let count = columns.len();
        let values = statement
            .query_row([], |row| (0..count).map(|at| row.get::<_, SqlValue>(at)).collect::<rusqlite::Result<_>>())
            .unwrap_or_else(|error| panic!("{table} {condition}: {error}"));
        SavedRow { table: table.to_owned(), columns, values }
    }

    /// Puts a row back as it was.
    pub(crate) fn put_back(&self, row: &SavedRow) {
        let places = vec!["?"; row.columns.len()].join(", ");
        let sql = format!("INSERT OR REPLACE INTO {} ({}) VALUES ({places})", row.table, row.columns.join(", "));
        self.database().execute(&sql, rusqlite::params_from_iter(&row.values)).expect("the row is put back");
    }

    /// The whole database with everything beside it, while no daemon writes.
    pub(crate) fn copy_database(&self) -> Vec<(PathBuf, Vec<u8>)> {
        // Everything is in one file then.
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)");
        let path = self.home().join("state.db");
        vec![(path.clone(), fs::read(&path).expect("a database"))]
    }

    pub(crate) fn restore_database(&self, copy: &[(PathBuf, Vec<u8>)]) {
        for name in ["state.db-wal", "state.db-shm"] {
            fs::remove_file(self.home().join(name)).ok();
        }
        for (path, bytes) in copy {
            fs::write(path, bytes).expect("the copy is put back");
        }
    }

    /// Appends a record to the audit, with the right number and the right digests. Gives its number and its digest.
    pub(crate) fn append_record(&self, kind: &str, approval: &str, body: &str) -> (i64, [u8; 32]) {
        let database = self.database();
        let (no, previous): (i64, Vec<u8>) = database
            .query_row("SELECT no, digest FROM audit_head", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("a last record");
        let (no, time) = (no + 1, 1_800_000_000_000_000_000_i64);
        let mut hash = Sha256::new();
        hash.update(b"hostel audit 1\0");
        hash.update(no.to_le_bytes());
        hash.update(time.to_le_bytes());
        for part in [kind.as_bytes(), approval.as_bytes(), body.as_bytes(), &previous] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        database
            .execute(
                "INSERT INTO audit (no, time_ns, kind, approval, body, previous, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
                rusqlite::params![no, time, kind, approval, body, previous, digest],
            )
            .expect("the triggers take it");
        (no, digest)
    }

    /// Appends a segment of the attacker's own with these records: whole, and signed with the attacker's key. The bodies may
    /// depend on the number of the segment's first record and on the key.
    pub(crate) fn append_segment(&self, records: &[(&str, &Body<'_>)]) {
        let (public, secret) = crypto_sign_seed_keypair(&[7; 32]);
        let begun = json!({"key": hex(&public), "id": "0000000000000000"}).to_string();
        let (first, mut digest) = self.append_record("segment", "", &begun);
        let mut last = first;
        for (kind, body) in records {
            (last, digest) = self.append_record(kind, "", &body(first, &public).to_string());
        }
        let message =
            [b"hostel audit segment 1\0".as_slice(), &first.to_le_bytes(), &last.to_le_bytes(), &digest].concat();
        let mut signature = [0; 64];
        crypto_sign_detached(&mut signature, &message, &secret).expect("a signature");
        let sql = "INSERT INTO audit_segments (first, last, signature) VALUES (?, ?, ?)";
        self.database().execute(sql, rusqlite::params![first, last, signature]).expect("the segment is signed");
    }

    /// A client of our own socket, outside of the house.
    pub(crate) fn native(&self) -> Peer {
        let mut peer = Peer::connect(&self.home().join("run/hostel.sock")).expect("our own socket accepts");
        peer.folds = false;
        peer.initialize();
        peer
    }

    /// The approver decides.
    pub(crate) fn decide(&self, id: &str, decision: &str) -> Value {
        let params = json!({"id": id, "decision": decision, "passphrase": PASSPHRASE});
        self.native().ask("approval/decide", params)
    }

    /// The kinds of all records.
    pub(crate) fn records(&self) -> Vec<Value> {
        let shown = self.native().ask("audit/show", json!({}));
        shown["records"].as_array().expect("records").clone()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.records().iter().map(|record| record["kind"].as_str().expect("a kind").to_owned()).collect()
    }

    /// Waits until tampering with this is recorded and reported.
    pub(crate) fn wait_tampered(&self, what: &str) {
        wait::eventually(&format!("tampering with {what} to be recorded and reported"), || {
            let records = self.records();
            let recorded = records.iter().any(|record| record["kind"] == "tampered" && record["body"]["what"] == what);
            let alarms = self.alarms();
            if recorded && !alarms.is_empty() { Ok(()) } else { Err(format!("{records:?} {alarms:?}")) }
        });
        let doctor = self.hostel(&["doctor"]);
        assert!(doctor.out.contains("tampering: "), "the doctor says nothing: {doctor:?}");
    }

    pub(crate) fn alarms(&self) -> Vec<String> {
        let status = self.native().ask("approver/status", json!({}));
        let alarms = status["alarms"].as_array().expect("alarms").iter();
        alarms.map(|alarm| alarm["text"].as_str().expect("a text").to_owned()).collect()
    }

    /// Nothing is called tampering, and nobody is alarmed.
    pub(crate) fn check_peace(&self) {
        assert_eq!(self.alarms(), Vec::<String>::new());
        assert!(!self.kinds().iter().any(|kind| kind == "tampered"), "{:?}", self.records());
        assert_eq!(self.verify().0, Value::Null);
    }

    /// What is wrong with the audit, and its segments.
    pub(crate) fn verify(&self) -> (Value, Value) {
        let mut verified = self.native().ask("audit/verify", json!({}));
        (verified["broken"].take(), verified["segments"].take())
    }

    /// Kills the keeper; a daemon that is up starts another.
    pub(crate) fn kill_keeper(&self) {
        let status = self.native().ask("house/status", json!({}));
        let pid = status["keeper"]["pid"].as_i64().expect("a pid");
        let keeper = Identity::of(i32::try_from(pid).expect("a pid")).expect("a keeper");
        keeper.signal(Signal::KILL);
        keeper.wait_gone(wait::LIMIT);
    }

    /// The daemon and then the keeper are killed, and the house is started again: the key is lost.
    pub(crate) fn lose_key(&self, meanwhile: impl FnOnce(&Self)) {
        let status = self.native().ask("house/status", json!({}));
        let pid = status["keeper"]["pid"].as_i64().expect("a pid");
        let keeper = Identity::of(i32::try_from(pid).expect("a pid")).expect("a keeper");
        self.crash();
        keeper.signal(Signal::KILL);
        keeper.wait_gone(wait::LIMIT);
        meanwhile(self);
        self.start();
    }
}

/// The body of a record, from the number of its segment's first record and from the segment's key.
type Body<'a> = dyn Fn(i64, &[u8; 32]) -> Value + 'a;

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A row as it was at some time.
pub(crate) struct SavedRow {
    table: String,
    columns: Vec<String>,
    values: Vec<SqlValue>,
}
