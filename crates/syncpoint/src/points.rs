//! The complete list of points: the name, what is on disk when the point is reached, and who has not been told.
//!
//! Names are `component.subject.event`. A new write that somebody is told of gets a new point here, and a kill test in
//! `tests/faults/points`.
//!
//! Not in the list: files that are an announcement themselves (port and lock files), default settings that a start
//! writes again when they are missing, and files that a command writes for a person (exports, backups, manual pages).

use super::SyncPoint;

macro_rules! points {
    ($($(#[doc = $meaning:literal])+ $point:ident = $name:literal;)+) => {
        $($(#[doc = $meaning])+ pub const $point: SyncPoint = SyncPoint::new($name);)+

        /// The name and the meaning of every point.
        pub const ALL: &[(&str, &str)] = &[$(($name, concat!($($meaning),+))),+];
    };
}

points! {
    // The house: sessions.

    /// The turn's row is committed; the client that sent the prompt has no answer.
    TURN_QUEUED = "house.turn.queued";
    /// The turn is started in the database, with the process that is to serve it; no process was started and no prompt put.
    TURN_STARTED = "house.turn.started";
    /// The turn's outcome and last event are committed; no client has seen the end and the next turn has not begun.
    TURN_ENDED = "house.turn.ended";
    /// A turn whose process died before its prompt was put has a new process in the database; none was started.
    TURN_RESTARTED = "house.turn.restarted";
    /// Why the running turn is to stop is committed; the agent has not been told and the asker has no answer.
    TURN_STOPPED = "house.turn.stopped";
    /// Queued turns are committed as cancelled; the asker has no answer and no event tells of it.
    TURN_CANCELLED = "house.turn.cancelled";
    /// The end events of cancelled turns are committed; no client has seen them.
    TURN_CANCEL_TOLD = "house.turn.cancel-told";
    /// A run of the session's events is committed; the journal position behind it is not.
    EVENTS_STORED = "house.events.stored";
    /// The events of an idle agent and how far its journal was read are committed together.
    IDLE_READ = "house.events.idle-read";
    /// A process is committed as started; its session does not know the pid yet.
    PROCESS_STARTED = "house.process.started";
    /// A process is committed as serving nobody; the keeper still remembers it.
    PROCESS_ENDED = "house.process.ended";
    /// A new session is committed; the client that made it has no answer.
    SESSION_CREATED = "house.session.created";
    /// A session is committed as live again; the client that resumed it has no answer.
    SESSION_REVIVED = "house.session.revived";
    /// A session is committed as archived; it is still listed, and its process still runs.
    SESSION_ARCHIVED = "house.session.archived";
    /// A session is committed as ended for good; the asker has no answer.
    SESSION_KILLED = "house.session.killed";
    /// A piece of a session's history, or the last of it, is deleted; the asker has no answer and journals are left.
    SESSION_ERASED = "house.session.erased";
    /// The session's name and mesh address are committed; the client has no answer.
    SESSION_NAMED = "house.session.named";
    /// The session's mode, model, owner or the agent's own id of it is committed; the client has no answer.
    SESSION_CHANGED = "house.session.changed";
    /// What the agent told of itself (model, its own id of the session) is committed; the turn goes on.
    SESSION_LEARNED = "house.session.learned";
    /// Sessions of an older version got mesh addresses at the start; no door is open.
    ADDRESSES_ASSIGNED = "house.session.addresses-assigned";
    /// What a door keeps with a session (codecast: how far events were delivered) is committed.
    DOOR_STATE_STORED = "house.door-state.stored";

    // The house: mesh messages for sessions.

    /// Whether the session takes mesh messages is committed; the client has no answer, and open questions stand.
    MAIL_POLICY = "house.mail.policy";
    /// The place in the mailbox is committed behind a message that is none for the agent.
    MAIL_PASSED = "house.mail.passed";
    /// A message too long for a prompt is noted and passed; the mailbox reader does not know.
    MAIL_KEPT = "house.mail.kept";
    /// A message is committed as a turn, with its place in the mailbox; the mailbox reader does not know.
    MAIL_QUEUED = "house.mail.queued";
    /// A message waits for a person's decision, with its place in the mailbox; nobody has been asked yet.
    MAIL_ASKED = "house.mail.asked";
    /// A message that a person agreed to is committed as a turn; the turn does not run.
    MAIL_DECIDED = "house.mail.decided";
    /// A message that a person refused is committed as declined.
    MAIL_DECLINED = "house.mail.declined";

    // The house: approvals.

    /// A request for approval is committed; nobody has been asked, and the requester does not know its id.
    APPROVAL_REQUESTED = "house.approval.requested";
    /// An agent's question is committed; nobody has been asked, and no event tells of it.
    QUESTION_ASKED = "house.approval.question-asked";
    /// That a person has seen a request, and the time it has from then on, is committed.
    APPROVAL_SHOWN = "house.approval.shown";
    /// The decision (approved, denied, withdrawn or expired) is committed with its audit records and grant; neither the
    /// decider nor the requester knows, and nothing was run.
    APPROVAL_SETTLED = "house.approval.settled";
    /// The audit record of a refused decision is committed; the decider has no answer.
    REFUSAL_RECORDED = "house.approval.refusal-recorded";
    /// A grant is committed as revoked; the asker has no answer, and the grant is still in memory.
    GRANT_REVOKED = "house.grant.revoked";
    /// The start of an approved pipeline is committed.
    RUN_STARTED = "house.run.started";
    /// The outcome of an approved pipeline is committed; the requester may not have it.
    RUN_ENDED = "house.run.ended";
    /// An attempt at the passphrase is counted; nothing was compared.
    ATTEMPT_COUNTED = "house.passphrase.attempt-counted";
    /// The right passphrase is committed as such; what it unlocks is not decided.
    ATTEMPT_PASSED = "house.passphrase.attempt-passed";
    /// A wrong passphrase is committed with its audit record; the decider has no answer.
    ATTEMPT_FAILED = "house.passphrase.attempt-failed";
    /// The digest of a new passphrase, or that there is none any more, is committed with its audit record; the file still
    /// holds the one of before, and the asker has no answer.
    PASSPHRASE_RECORDED = "house.passphrase.recorded";
    /// The file with the digest of a new passphrase is in place; the asker has no answer.
    PASSPHRASE_WRITTEN = "house.passphrase.written";

    /// What somebody else has changed is recorded, and denied or written again; nobody has been told.
    TAMPERING_RECORDED = "house.tampering.recorded";
    /// The endorsement of the audit's key with the passphrase is committed; nobody waits for it.
    SEGMENT_ENDORSED = "house.audit.endorsed";
    /// Settings about consent are committed as in force; the ones of before still apply, and the asker has no answer.
    POLICY_STORED = "house.policy.stored";
    /// Everything that a lost key makes void is committed, with seals of the new key; grants are still in memory.
    HOUSE_REKEYED = "house.key.replaced";
    /// What the start found is committed as it counts from now on; no door is open.
    CONSENT_LOADED = "house.consent.loaded";
    /// The keeper knows what state.db will be after the next commit, and what it is before; nothing is committed.
    ANCHOR_INTENDED = "house.anchor.intended";
    /// The commit is done; the keeper takes the state before it for possible still.
    ANCHOR_COMMITTED = "house.anchor.committed";
    /// The keeper knows that the commit is done; nobody who waits for it has been told.
    ANCHOR_CONFIRMED = "house.anchor.confirmed";

    // The keeper.

    /// The child runs; the daemon that asked for it does not know its pid.
    KEEPER_SPAWNED = "keeper.process.spawned";
    /// Output of a child stands in its journal; the daemon has no note of it.
    KEEPER_OUTPUT = "keeper.output.appended";
    /// The mark of an input stands in the journal; the child has not got the bytes, and the daemon no answer.
    KEEPER_MARK = "keeper.mark.written";
    /// Input, or its end, is accepted and counted; the daemon has no answer.
    KEEPER_INPUT = "keeper.input.applied";
    /// The exit of a child stands in its journal; the daemon has no note of it.
    KEEPER_EXIT = "keeper.exit.written";
    /// The journal of a child that printed nothing was made; whoever asked for it has no answer.
    KEEPER_JOURNAL = "keeper.journal.made";

    // The mesh daemon: messages.

    /// A message is in the outbox; the sender has no answer.
    OUTBOX_ACCEPTED = "mesh.outbox.accepted";
    /// Messages are marked as under way; they may not have been sent.
    OUTBOX_CLAIMED = "mesh.outbox.claimed";
    /// Messages that the broker has are settled; the next ones of their lanes have not been sent.
    OUTBOX_ACKED = "mesh.outbox.acked";
    /// Messages that the broker turned away for now wait for their next try.
    OUTBOX_RETRIED = "mesh.outbox.retried";
    /// Messages that the broker will never take are given up; nobody has been told.
    OUTBOX_GIVEN_UP = "mesh.outbox.given-up";
    /// Messages of a lost connection wait again.
    OUTBOX_RELEASED = "mesh.outbox.released";
    /// A message that was given up is in the outbox again under a new id; the asker has no answer.
    OUTBOX_REQUEUED = "mesh.outbox.requeued";
    /// Messages that a broker with an older log no longer has are owed again.
    OUTBOX_OWED_AGAIN = "mesh.outbox.owed-again";
    /// The start has put what was under way back into the outbox; no door is open.
    OUTBOX_RECOVERED = "mesh.outbox.recovered";
    /// The outbox is bound to another identity of the member; the command that changed it has not ended.
    OUTBOX_OWNER = "mesh.outbox.owner-changed";
    /// Settled messages are forgotten at somebody's request; the asker has no answer.
    OUTBOX_PRUNED = "mesh.outbox.pruned";
    /// Messages and how far the broker's log is read with them are in the inbox; no stream has told of them.
    INBOX_STORED = "mesh.inbox.stored";
    /// Messages that waited for a key are open in the inbox; no stream has told of them.
    INBOX_OPENED = "mesh.inbox.opened";
    /// Messages are marked as seen; the reader has no answer.
    INBOX_SEEN = "mesh.inbox.seen";
    /// Messages are deleted; the asker has no answer.
    INBOX_DELETED = "mesh.inbox.deleted";
    /// Where the broker's log ended at the first connection is kept; nothing of the log is stored.
    HISTORY_LINE = "mesh.inbox.history-line";
    /// An event of the mesh is committed; no stream has told of it.
    EVENT_STORED = "mesh.event.stored";
    /// A key that a person accepted for another member is committed; that person has not been told.
    AUTHOR_TRUSTED = "mesh.author.trusted";
    /// How far hooks have run is committed.
    HOOKS_CURSOR = "mesh.hooks.cursor-moved";

    // The mesh daemon: files.

    /// The membership is in `config.json`; the command or daemon that wrote it has told nobody.
    MEMBERSHIP_WRITTEN = "mesh.membership.written";
    /// The key for an invite that is about to be redeemed is kept; the broker has not heard of it.
    PENDING_KEY_WRITTEN = "mesh.key.pending-written";
    /// The member's key is in `keypair.json`.
    KEYPAIR_WRITTEN = "mesh.key.current-written";
    /// The next key of a rotation is kept; nothing is committed to it.
    NEXT_KEY_WRITTEN = "mesh.key.next-written";
    /// The archive of earlier keys is written: at a rotation its commit; the broker has not heard of the new key.
    KEY_ARCHIVE_WRITTEN = "mesh.key.archive-written";
    /// How the key that counts follows the one before is written; the old key is still in its files.
    LINEAGE_WRITTEN = "mesh.key.lineage-written";
    /// The previous local token is kept beside; the new one is not in place.
    TOKEN_PREVIOUS_WRITTEN = "mesh.token.previous-written";
    /// A local token is in place; nobody has been told.
    TOKEN_WRITTEN = "mesh.token.written";
    /// The fingerprint of the host is kept; the daemon has not started.
    FINGERPRINT_WRITTEN = "mesh.fingerprint.written";
    /// Topics with their keys are kept; nobody uses the new ones.
    TOPICS_WRITTEN = "mesh.topics.written";
    /// A shared file is kept for its upload; it is not announced and the client has no answer.
    FILE_KEPT = "mesh.file.kept";
    /// An uploaded file is noted as done; its sealed bytes are still there.
    FILE_SETTLED = "mesh.file.settled";
    /// The sessions that may use the mesh are kept; the one that registered has no answer.
    SESSIONS_WRITTEN = "mesh.sessions.written";
    /// The roster is kept; nobody has been told of the change.
    ROSTER_WRITTEN = "mesh.roster.written";

    // The broker.

    /// The broker's id is committed at its first start; it does not listen.
    BROKER_IDENTITY = "broker.identity.stored";
    /// Entries are in the log; their senders have no acknowledgement and nobody got them.
    BROKER_ENTRIES = "broker.log.appended";
    /// A change of shared state or tasks is committed with its entry in the log; the asker has no answer.
    BROKER_SHARED = "broker.shared.stored";
    /// A mesh has a log; its creator has no answer.
    BROKER_LOG = "broker.log.created";
    /// A mesh is registered; its creator has no answer.
    BROKER_MESH = "broker.mesh.stored";
    /// A member is stored (profile, key, revocation); the asker has no answer.
    BROKER_MEMBER = "broker.member.stored";
    /// An invite is stored or redeemed; the asker has no answer.
    BROKER_INVITE = "broker.invite.stored";
    /// A topic is stored; the asker has no answer.
    BROKER_TOPIC = "broker.topic.stored";
    /// A subscription is stored; the asker has no answer.
    BROKER_SUBSCRIPTION = "broker.subscription.stored";
    /// The sealed key of a topic is stored; the asker has no answer.
    BROKER_SEAL = "broker.seal.stored";
    /// A grant is stored; the asker has no answer.
    BROKER_GRANT = "broker.grant.stored";
    /// How far members have read, or when they were last seen, is stored.
    BROKER_CURSOR = "broker.cursor.stored";
    /// A member's session is stored; the asker has no answer.
    BROKER_SESSION = "broker.session.stored";
    /// A file's record is stored; the asker has no answer.
    BROKER_FILE = "broker.file.stored";
    /// The bytes of a file are in place; no record tells of them and the uploader has no answer.
    BROKER_BLOB = "broker.file.bytes-written";
    /// A lease, a link of keys or another small record is stored.
    BROKER_RECORD = "broker.record.stored";
    /// The log has a new epoch; nobody has been told.
    BROKER_EPOCH = "broker.log.epoch-renewed";
    /// A record of the audit is stored; the asker has no answer.
    BROKER_AUDIT = "broker.audit.appended";

    // Doors and commands.

    /// An attachment of a prompt is in place; its turn is not queued.
    ATTACHMENT_STORED = "doors.attachment.stored";
    /// The mesh token of a session is in its file; the session has not been told.
    POSTMAN_TOKEN = "doors.mesh-token.written";
    /// The registry of remote hosts is written; the command has not ended.
    REGISTRY_WRITTEN = "sudo-proxy.registry.written";
}
