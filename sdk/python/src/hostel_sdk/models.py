"""What goes over the wire, typed.

Written by sdk/schema/generate from sdk/schema/schema.json: change that, not this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ._errors import ProtocolError

SDK_VERSION = "0.1.0"
IPC_API = "v1"
IPC_MINOR = 4
NATIVE_PROTOCOL = 1

_T = TypeVar("_T")


def _object(value: Any, of: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"{of}: not an object")
    return value


def _need(value: dict[str, Any], name: str, read: Callable[[Any], _T]) -> _T:
    if name not in value:
        raise ProtocolError(f"`{name}` is missing")
    try:
        return read(value[name])
    except ProtocolError as error:
        raise ProtocolError(f"{name}: {error}") from None


def _may(value: dict[str, Any], name: str, read: Callable[[Any], _T]) -> _T | None:
    return None if value.get(name) is None else _need(value, name, read)


def _any(value: Any) -> Any:
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise ProtocolError("not a text")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError("not a whole number")
    return value


def _float(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ProtocolError("not a number")
    return float(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError("neither true nor false")
    return value


def _map(value: Any) -> dict[str, Any]:
    return _object(value, "value")


def _list(read: Callable[[Any], _T]) -> Callable[[Any], list[_T]]:
    def all_of(value: Any) -> list[_T]:
        if not isinstance(value, list):
            raise ProtocolError("not a list")
        return [read(item) for item in value]

    return all_of


Priority = Literal["now", "next", "low"]
"""How urgent a message is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group with the role one has in it."""

    name: str
    role: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> Group:
        value = _object(value, "Group")
        return cls(
            name=_need(value, "name", _str),
            role=_may(value, "role", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "name": self.name,
        }
        if self.role is not None:
            out["role"] = self.role
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why something was refused. The word in `error` stays; `detail` is for people."""

    error: str
    detail: str
    field: str | None = None
    conflict: str | None = None
    """Which earlier request has the id (`idempotency_key_reused`)."""
    daemon_fingerprint_prefix: str | None = None
    broker_message_id: str | None = None
    reason: str | None = None
    candidates: list[Any] | None = None
    more: dict[str, Any] | None = None
    """What else it says."""

    @classmethod
    def from_json(cls, value: Any) -> Refusal:
        value = _object(value, "Refusal")
        return cls(
            error=_need(value, "error", _str),
            detail=_need(value, "detail", _str),
            field=_may(value, "field", _str),
            conflict=_may(value, "conflict", _str),
            daemon_fingerprint_prefix=_may(value, "daemon_fingerprint_prefix", _str),
            broker_message_id=_may(value, "broker_message_id", _str),
            reason=_may(value, "reason", _str),
            candidates=_may(value, "candidates", _list(_any)),
            more={name: value[name] for name in value if name not in {"error", "detail", "field", "conflict", "daemon_fingerprint_prefix", "broker_message_id", "reason", "candidates"}},
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "error": self.error,
            "detail": self.detail,
            "field": self.field,
        }
        if self.conflict is not None:
            out["conflict"] = self.conflict
        if self.daemon_fingerprint_prefix is not None:
            out["daemon_fingerprint_prefix"] = self.daemon_fingerprint_prefix
        if self.broker_message_id is not None:
            out["broker_message_id"] = self.broker_message_id
        if self.reason is not None:
            out["reason"] = self.reason
        if self.candidates is not None:
            out["candidates"] = self.candidates
        out.update(self.more or {})
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message was taken: it is on disk."""

    message_id: str
    """The same as `client_message_id`."""
    client_message_id: str
    status: str
    broker_message_id: str | None = None
    duplicate: bool | None = None
    """It had been delivered before."""
    topic: str | None = None
    target: str | None = None
    target_pubkey: str | None = None
    recipient_online: bool | None = None

    @classmethod
    def from_json(cls, value: Any) -> Sent:
        value = _object(value, "Sent")
        return cls(
            message_id=_need(value, "messageId", _str),
            client_message_id=_need(value, "client_message_id", _str),
            status=_need(value, "status", _str),
            broker_message_id=_may(value, "broker_message_id", _str),
            duplicate=_may(value, "duplicate", _bool),
            topic=_may(value, "topic", _str),
            target=_may(value, "target", _str),
            target_pubkey=_may(value, "targetPubkey", _str),
            recipient_online=_may(value, "recipientOnline", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "messageId": self.message_id,
            "client_message_id": self.client_message_id,
            "status": self.status,
        }
        if self.broker_message_id is not None:
            out["broker_message_id"] = self.broker_message_id
        if self.duplicate is not None:
            out["duplicate"] = self.duplicate
        if self.topic is not None:
            out["topic"] = self.topic
        if self.target is not None:
            out["target"] = self.target
        if self.target_pubkey is not None:
            out["targetPubkey"] = self.target_pubkey
        if self.recipient_online is not None:
            out["recipientOnline"] = self.recipient_online
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A topic is, or is no longer, subscribed to."""

    ok: bool
    topic: str
    subscribed: bool
    topic_id: str | None = None
    created: bool | None = None
    pending: bool | None = None
    """The broker has not heard it yet."""

    @classmethod
    def from_json(cls, value: Any) -> Subscribed:
        value = _object(value, "Subscribed")
        return cls(
            ok=_need(value, "ok", _bool),
            topic=_need(value, "topic", _str),
            subscribed=_need(value, "subscribed", _bool),
            topic_id=_may(value, "topicId", _str),
            created=_may(value, "created", _bool),
            pending=_may(value, "pending", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "topic": self.topic,
            "subscribed": self.subscribed,
        }
        if self.topic_id is not None:
            out["topicId"] = self.topic_id
        if self.created is not None:
            out["created"] = self.created
        if self.pending is not None:
            out["pending"] = self.pending
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic."""

    id: str
    name: str
    description: str | None = None
    visibility: str
    member_count: int
    subscribed: bool
    unread: int
    created_at: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> Topic:
        value = _object(value, "Topic")
        return cls(
            id=_need(value, "id", _str),
            name=_need(value, "name", _str),
            description=_may(value, "description", _str),
            visibility=_need(value, "visibility", _str),
            member_count=_need(value, "memberCount", _int),
            subscribed=_need(value, "subscribed", _bool),
            unread=_need(value, "unread", _int),
            created_at=_may(value, "createdAt", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "visibility": self.visibility,
            "memberCount": self.member_count,
            "subscribed": self.subscribed,
            "unread": self.unread,
            "createdAt": self.created_at,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList:
    """GET /v1/topic/list."""

    topics: list[Topic]

    @classmethod
    def from_json(cls, value: Any) -> TopicList:
        value = _object(value, "TopicList")
        return cls(
            topics=_need(value, "topics", _list(Topic.from_json)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "topics": [item.to_json() for item in self.topics],
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """A message of the inbox."""

    id: str
    client_message_id: str
    broker_message_id: str
    mesh: str
    kind: str
    topic: str | None = None
    sender_pubkey: str
    sender_member_id: str
    sender_name: str
    body: str | None = None
    """Null if it could not be opened."""
    meta: dict[str, Any] | None = None
    priority: str
    mentions: list[str]
    mention: bool
    received_at: str
    created_at: str | None = None
    reply_to_id: str | None = None
    seen_at: str | None = None
    recipient_pubkey: str | None = None
    recipient_kind: str
    idempotency_key: str
    """The same as `client_message_id`."""
    recipient_session: str | None = None
    decrypt_error: str | None = None
    verified: bool | None = None
    """Whether the member that is named as the sender is proven to have written it. Absent: it is not, which is so until the member's own statement has arrived."""
    file: dict[str, Any] | None = None
    snippet: str | None = None
    cursor: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> InboxItem:
        value = _object(value, "InboxItem")
        return cls(
            id=_need(value, "id", _str),
            client_message_id=_need(value, "client_message_id", _str),
            broker_message_id=_need(value, "broker_message_id", _str),
            mesh=_need(value, "mesh", _str),
            kind=_need(value, "kind", _str),
            topic=_may(value, "topic", _str),
            sender_pubkey=_need(value, "sender_pubkey", _str),
            sender_member_id=_need(value, "sender_member_id", _str),
            sender_name=_need(value, "sender_name", _str),
            body=_may(value, "body", _str),
            meta=_may(value, "meta", _map),
            priority=_need(value, "priority", _str),
            mentions=_need(value, "mentions", _list(_str)),
            mention=_need(value, "mention", _bool),
            received_at=_need(value, "received_at", _str),
            created_at=_may(value, "created_at", _str),
            reply_to_id=_may(value, "reply_to_id", _str),
            seen_at=_may(value, "seen_at", _str),
            recipient_pubkey=_may(value, "recipient_pubkey", _str),
            recipient_kind=_need(value, "recipient_kind", _str),
            idempotency_key=_need(value, "idempotency_key", _str),
            recipient_session=_may(value, "recipient_session", _str),
            decrypt_error=_may(value, "decrypt_error", _str),
            verified=_may(value, "verified", _bool),
            file=_may(value, "file", _map),
            snippet=_may(value, "snippet", _str),
            cursor=_may(value, "cursor", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "id": self.id,
            "client_message_id": self.client_message_id,
            "broker_message_id": self.broker_message_id,
            "mesh": self.mesh,
            "kind": self.kind,
            "topic": self.topic,
            "sender_pubkey": self.sender_pubkey,
            "sender_member_id": self.sender_member_id,
            "sender_name": self.sender_name,
            "body": self.body,
            "meta": self.meta,
            "priority": self.priority,
            "mentions": self.mentions,
            "mention": self.mention,
            "received_at": self.received_at,
            "created_at": self.created_at,
            "reply_to_id": self.reply_to_id,
            "seen_at": self.seen_at,
            "recipient_pubkey": self.recipient_pubkey,
            "recipient_kind": self.recipient_kind,
            "idempotency_key": self.idempotency_key,
        }
        if self.recipient_session is not None:
            out["recipient_session"] = self.recipient_session
        if self.decrypt_error is not None:
            out["decrypt_error"] = self.decrypt_error
        if self.verified is not None:
            out["verified"] = self.verified
        if self.file is not None:
            out["file"] = self.file
        if self.snippet is not None:
            out["snippet"] = self.snippet
        if self.cursor is not None:
            out["cursor"] = self.cursor
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage:
    """GET /v1/inbox: newest first, unless asked otherwise."""

    items: list[InboxItem]
    marked_seen: int
    next: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> InboxPage:
        value = _object(value, "InboxPage")
        return cls(
            items=_need(value, "items", _list(InboxItem.from_json)),
            marked_seen=_need(value, "marked_seen", _int),
            next=_may(value, "next", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "items": [item.to_json() for item in self.items],
            "marked_seen": self.marked_seen,
            "next": self.next,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """GET /v1/inbox/search."""

    items: list[InboxItem]
    truncated: bool | None = None

    @classmethod
    def from_json(cls, value: Any) -> SearchPage:
        value = _object(value, "SearchPage")
        return cls(
            items=_need(value, "items", _list(InboxItem.from_json)),
            truncated=_may(value, "truncated", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "items": [item.to_json() for item in self.items],
        }
        if self.truncated is not None:
            out["truncated"] = self.truncated
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """POST /v1/inbox/seen."""

    ok: bool
    marked_seen: int

    @classmethod
    def from_json(cls, value: Any) -> Seen:
        value = _object(value, "Seen")
        return cls(
            ok=_need(value, "ok", _bool),
            marked_seen=_need(value, "marked_seen", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "marked_seen": self.marked_seen,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """DELETE /v1/inbox/:id and DELETE /v1/inbox."""

    ok: bool
    deleted: int

    @classmethod
    def from_json(cls, value: Any) -> Deleted:
        value = _object(value, "Deleted")
        return cls(
            ok=_need(value, "ok", _bool),
            deleted=_need(value, "deleted", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "deleted": self.deleted,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Somebody in the mesh."""

    pubkey: str
    member_pubkey: str
    member_id: str
    display_name: str
    status: str
    summary: str | None = None
    groups: list[Group]
    session_id: str | None = None
    connected_at: str | None = None
    cwd: str | None = None
    peer_role: str
    hostname: str | None = None
    peer_type: str | None = None
    channel: str | None = None
    visible: bool
    mesh: str
    online: bool

    @classmethod
    def from_json(cls, value: Any) -> Peer:
        value = _object(value, "Peer")
        return cls(
            pubkey=_need(value, "pubkey", _str),
            member_pubkey=_need(value, "memberPubkey", _str),
            member_id=_need(value, "memberId", _str),
            display_name=_need(value, "displayName", _str),
            status=_need(value, "status", _str),
            summary=_may(value, "summary", _str),
            groups=_need(value, "groups", _list(Group.from_json)),
            session_id=_may(value, "sessionId", _str),
            connected_at=_may(value, "connectedAt", _str),
            cwd=_may(value, "cwd", _str),
            peer_role=_need(value, "peerRole", _str),
            hostname=_may(value, "hostname", _str),
            peer_type=_may(value, "peerType", _str),
            channel=_may(value, "channel", _str),
            visible=_need(value, "visible", _bool),
            mesh=_need(value, "mesh", _str),
            online=_need(value, "online", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "pubkey": self.pubkey,
            "memberPubkey": self.member_pubkey,
            "memberId": self.member_id,
            "displayName": self.display_name,
            "status": self.status,
            "summary": self.summary,
            "groups": [item.to_json() for item in self.groups],
            "sessionId": self.session_id,
            "connectedAt": self.connected_at,
            "cwd": self.cwd,
            "peerRole": self.peer_role,
            "hostname": self.hostname,
            "peerType": self.peer_type,
            "channel": self.channel,
            "visible": self.visible,
            "mesh": self.mesh,
            "online": self.online,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerList:
    """GET /v1/peers."""

    peers: list[Peer]

    @classmethod
    def from_json(cls, value: Any) -> PeerList:
        value = _object(value, "PeerList")
        return cls(
            peers=_need(value, "peers", _list(Peer.from_json)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "peers": [item.to_json() for item in self.peers],
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileApplied:
    """POST /v1/profile."""

    ok: bool
    applied: list[str]
    meshes: list[str]

    @classmethod
    def from_json(cls, value: Any) -> ProfileApplied:
        value = _object(value, "ProfileApplied")
        return cls(
            ok=_need(value, "ok", _bool),
            applied=_need(value, "applied", _list(_str)),
            meshes=_need(value, "meshes", _list(_str)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "applied": self.applied,
            "meshes": self.meshes,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """POST /v1/file/share."""

    ok: bool
    file_id: str
    name: str
    size: int
    sha256: str
    to: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> Shared:
        value = _object(value, "Shared")
        return cls(
            ok=_need(value, "ok", _bool),
            file_id=_need(value, "fileId", _str),
            name=_need(value, "name", _str),
            size=_need(value, "size", _int),
            sha256=_need(value, "sha256", _str),
            to=_may(value, "to", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "fileId": self.file_id,
            "name": self.name,
            "size": self.size,
            "sha256": self.sha256,
            "to": self.to,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """GET /v1/file/get."""

    ok: bool
    file_id: str
    name: str
    saved_to: str
    size: int
    sha256: str
    verified: bool | None = None
    """Whether the member that is named is proven to have shared it. Absent: it is not."""

    @classmethod
    def from_json(cls, value: Any) -> Fetched:
        value = _object(value, "Fetched")
        return cls(
            ok=_need(value, "ok", _bool),
            file_id=_need(value, "fileId", _str),
            name=_need(value, "name", _str),
            saved_to=_need(value, "savedTo", _str),
            size=_need(value, "size", _int),
            sha256=_need(value, "sha256", _str),
            verified=_may(value, "verified", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "fileId": self.file_id,
            "name": self.name,
            "savedTo": self.saved_to,
            "size": self.size,
            "sha256": self.sha256,
        }
        if self.verified is not None:
            out["verified"] = self.verified
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem:
    """A file."""

    id: str
    name: str
    size: int
    tags: list[str]
    uploaded_by: str
    uploaded_at: str
    persistent: bool
    encrypted: bool
    sha256: str | None = None
    to: str | None = None
    verified: bool | None = None
    """Whether the member that is named is proven to have shared it. Absent: it is not."""

    @classmethod
    def from_json(cls, value: Any) -> FileItem:
        value = _object(value, "FileItem")
        return cls(
            id=_need(value, "id", _str),
            name=_need(value, "name", _str),
            size=_need(value, "size", _int),
            tags=_need(value, "tags", _list(_str)),
            uploaded_by=_need(value, "uploadedBy", _str),
            uploaded_at=_need(value, "uploadedAt", _str),
            persistent=_need(value, "persistent", _bool),
            encrypted=_need(value, "encrypted", _bool),
            sha256=_may(value, "sha256", _str),
            to=_may(value, "to", _str),
            verified=_may(value, "verified", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "size": self.size,
            "tags": self.tags,
            "uploadedBy": self.uploaded_by,
            "uploadedAt": self.uploaded_at,
            "persistent": self.persistent,
            "encrypted": self.encrypted,
            "sha256": self.sha256,
            "to": self.to,
        }
        if self.verified is not None:
            out["verified"] = self.verified
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """GET /v1/file/list."""

    files: list[FileItem]

    @classmethod
    def from_json(cls, value: Any) -> FileList:
        value = _object(value, "FileList")
        return cls(
            files=_need(value, "files", _list(FileItem.from_json)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "files": [item.to_json() for item in self.files],
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """GET /v1/health."""

    ok: bool
    pid: int
    connected: bool
    lag_ms: int | None = None
    queue_depth: int
    inflight: int
    mesh: str
    member_pubkey: str
    uptime_s: int
    schema_version: int
    daemon_version: str
    broker_version: str | None = None
    brokers: dict[str, Any]
    display_name: str
    state: str

    @classmethod
    def from_json(cls, value: Any) -> Health:
        value = _object(value, "Health")
        return cls(
            ok=_need(value, "ok", _bool),
            pid=_need(value, "pid", _int),
            connected=_need(value, "connected", _bool),
            lag_ms=_may(value, "lag_ms", _int),
            queue_depth=_need(value, "queue_depth", _int),
            inflight=_need(value, "inflight", _int),
            mesh=_need(value, "mesh", _str),
            member_pubkey=_need(value, "member_pubkey", _str),
            uptime_s=_need(value, "uptime_s", _int),
            schema_version=_need(value, "schema_version", _int),
            daemon_version=_need(value, "daemon_version", _str),
            broker_version=_may(value, "broker_version", _str),
            brokers=_need(value, "brokers", _map),
            display_name=_need(value, "display_name", _str),
            state=_need(value, "state", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "pid": self.pid,
            "connected": self.connected,
            "lag_ms": self.lag_ms,
            "queue_depth": self.queue_depth,
            "inflight": self.inflight,
            "mesh": self.mesh,
            "member_pubkey": self.member_pubkey,
            "uptime_s": self.uptime_s,
            "schema_version": self.schema_version,
            "daemon_version": self.daemon_version,
            "broker_version": self.broker_version,
            "brokers": self.brokers,
            "display_name": self.display_name,
            "state": self.state,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """GET /v1/version."""

    daemon_version: str
    ipc_api: str
    ipc_minor: int
    schema_version: int
    broker_protocol_min: str
    broker_protocol_max: str
    mesh: str
    ipc_features: list[str]
    broker_features_negotiated: dict[str, Any]

    @classmethod
    def from_json(cls, value: Any) -> Version:
        value = _object(value, "Version")
        return cls(
            daemon_version=_need(value, "daemon_version", _str),
            ipc_api=_need(value, "ipc_api", _str),
            ipc_minor=_need(value, "ipc_minor", _int),
            schema_version=_need(value, "schema_version", _int),
            broker_protocol_min=_need(value, "broker_protocol_min", _str),
            broker_protocol_max=_need(value, "broker_protocol_max", _str),
            mesh=_need(value, "mesh", _str),
            ipc_features=_need(value, "ipc_features", _list(_str)),
            broker_features_negotiated=_need(value, "broker_features_negotiated", _map),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "daemon_version": self.daemon_version,
            "ipc_api": self.ipc_api,
            "ipc_minor": self.ipc_minor,
            "schema_version": self.schema_version,
            "broker_protocol_min": self.broker_protocol_min,
            "broker_protocol_max": self.broker_protocol_max,
            "mesh": self.mesh,
            "ipc_features": self.ipc_features,
            "broker_features_negotiated": self.broker_features_negotiated,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Compat:
    """GET /v1/compat."""

    daemon: str
    compatible_brokers: list[str]
    compatible_clis: list[str]
    compatible_sdks: dict[str, Any]

    @classmethod
    def from_json(cls, value: Any) -> Compat:
        value = _object(value, "Compat")
        return cls(
            daemon=_need(value, "daemon", _str),
            compatible_brokers=_need(value, "compatible_brokers", _list(_str)),
            compatible_clis=_need(value, "compatible_clis", _list(_str)),
            compatible_sdks=_need(value, "compatible_sdks", _map),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "daemon": self.daemon,
            "compatible_brokers": self.compatible_brokers,
            "compatible_clis": self.compatible_clis,
            "compatible_sdks": self.compatible_sdks,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """POST /v1/heartbeat."""

    ok: bool
    ts: str

    @classmethod
    def from_json(cls, value: Any) -> Heartbeat:
        value = _object(value, "Heartbeat")
        return cls(
            ok=_need(value, "ok", _bool),
            ts=_need(value, "ts", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ok": self.ok,
            "ts": self.ts,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """A message came."""

    ts: str
    id: str
    mesh: str
    kind: str
    client_message_id: str
    broker_message_id: str
    sender_pubkey: str
    sender_member_pubkey: str
    sender_member_id: str
    sender_name: str
    topic: str | None = None
    reply_to_id: str | None = None
    priority: str
    body: str | None = None
    meta: dict[str, Any] | None = None
    mentions: list[str]
    mention: bool
    created_at: str | None = None
    recipient_pubkey: str | None = None
    recipient_kind: str
    recipient_session: str | None = None
    decrypt_error: str | None = None
    verified: bool | None = None
    """Whether the member that is named as the sender is proven to have written it. Absent: it is not, which is so until the member's own statement has arrived."""
    file: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, value: Any) -> MessageEvent:
        value = _object(value, "MessageEvent")
        return cls(
            ts=_need(value, "ts", _str),
            id=_need(value, "id", _str),
            mesh=_need(value, "mesh", _str),
            kind=_need(value, "kind", _str),
            client_message_id=_need(value, "client_message_id", _str),
            broker_message_id=_need(value, "broker_message_id", _str),
            sender_pubkey=_need(value, "sender_pubkey", _str),
            sender_member_pubkey=_need(value, "sender_member_pubkey", _str),
            sender_member_id=_need(value, "sender_member_id", _str),
            sender_name=_need(value, "sender_name", _str),
            topic=_may(value, "topic", _str),
            reply_to_id=_may(value, "reply_to_id", _str),
            priority=_need(value, "priority", _str),
            body=_may(value, "body", _str),
            meta=_may(value, "meta", _map),
            mentions=_need(value, "mentions", _list(_str)),
            mention=_need(value, "mention", _bool),
            created_at=_may(value, "created_at", _str),
            recipient_pubkey=_may(value, "recipient_pubkey", _str),
            recipient_kind=_need(value, "recipient_kind", _str),
            recipient_session=_may(value, "recipient_session", _str),
            decrypt_error=_may(value, "decrypt_error", _str),
            verified=_may(value, "verified", _bool),
            file=_may(value, "file", _map),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "id": self.id,
            "mesh": self.mesh,
            "kind": self.kind,
            "client_message_id": self.client_message_id,
            "broker_message_id": self.broker_message_id,
            "sender_pubkey": self.sender_pubkey,
            "sender_member_pubkey": self.sender_member_pubkey,
            "sender_member_id": self.sender_member_id,
            "sender_name": self.sender_name,
            "topic": self.topic,
            "reply_to_id": self.reply_to_id,
            "priority": self.priority,
            "body": self.body,
            "meta": self.meta,
            "mentions": self.mentions,
            "mention": self.mention,
            "created_at": self.created_at,
            "recipient_pubkey": self.recipient_pubkey,
            "recipient_kind": self.recipient_kind,
        }
        if self.recipient_session is not None:
            out["recipient_session"] = self.recipient_session
        if self.decrypt_error is not None:
            out["decrypt_error"] = self.decrypt_error
        if self.verified is not None:
            out["verified"] = self.verified
        if self.file is not None:
            out["file"] = self.file
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSharedEvent:
    """A file was shared with us. What the sender says about it stands beside these."""

    ts: str
    mesh: str
    from_: str
    message: str | None = None
    file_id: str | None = None
    name: str | None = None
    size: int | None = None
    sha256: str | None = None
    more: dict[str, Any] | None = None
    """What else it says."""

    @classmethod
    def from_json(cls, value: Any) -> FileSharedEvent:
        value = _object(value, "FileSharedEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            from_=_need(value, "from", _str),
            message=_may(value, "message", _str),
            file_id=_may(value, "fileId", _str),
            name=_may(value, "name", _str),
            size=_may(value, "size", _int),
            sha256=_may(value, "sha256", _str),
            more={name: value[name] for name in value if name not in {"ts", "mesh", "from", "message", "fileId", "name", "size", "sha256"}},
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "from": self.from_,
            "message": self.message,
        }
        if self.file_id is not None:
            out["fileId"] = self.file_id
        if self.name is not None:
            out["name"] = self.name
        if self.size is not None:
            out["size"] = self.size
        if self.sha256 is not None:
            out["sha256"] = self.sha256
        out.update(self.more or {})
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEvent:
    """Somebody came or went."""

    ts: str
    mesh: str
    event: str
    """`peer_joined`, `peer_returned`, `peer_visible`, `peer_left` or `peer_hidden`."""
    member_id: str | None = None
    name: str | None = None
    pubkey: str | None = None
    groups: list[Group] | None = None
    last_seen_at: str | None = None
    summary: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> PeerEvent:
        value = _object(value, "PeerEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            event=_need(value, "event", _str),
            member_id=_may(value, "memberId", _str),
            name=_may(value, "name", _str),
            pubkey=_may(value, "pubkey", _str),
            groups=_may(value, "groups", _list(Group.from_json)),
            last_seen_at=_may(value, "lastSeenAt", _str),
            summary=_may(value, "summary", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "event": self.event,
        }
        if self.member_id is not None:
            out["memberId"] = self.member_id
        if self.name is not None:
            out["name"] = self.name
        if self.pubkey is not None:
            out["pubkey"] = self.pubkey
        if self.groups is not None:
            out["groups"] = [item.to_json() for item in self.groups or []]
        if self.last_seen_at is not None:
            out["lastSeenAt"] = self.last_seen_at
        if self.summary is not None:
            out["summary"] = self.summary
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectEvent:
    """The connection to the broker is gone."""

    ts: str
    mesh: str
    reason: str

    @classmethod
    def from_json(cls, value: Any) -> DisconnectEvent:
        value = _object(value, "DisconnectEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            reason=_need(value, "reason", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "reason": self.reason,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectEvent:
    """The connection to the broker stands."""

    ts: str
    mesh: str
    first: bool
    """Since the daemon's start."""

    @classmethod
    def from_json(cls, value: Any) -> ReconnectEvent:
        value = _object(value, "ReconnectEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            first=_need(value, "first", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "first": self.first,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatusEvent:
    """How the daemon stands to its broker."""

    ts: str
    mesh: str
    status: str

    @classmethod
    def from_json(cls, value: Any) -> BrokerStatusEvent:
        value = _object(value, "BrokerStatusEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            status=_need(value, "status", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "status": self.status,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxDeadEvent:
    """A message was given up."""

    ts: str
    mesh: str
    id: str
    client_message_id: str
    reason: str
    detail: str

    @classmethod
    def from_json(cls, value: Any) -> OutboxDeadEvent:
        value = _object(value, "OutboxDeadEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            id=_need(value, "id", _str),
            client_message_id=_need(value, "client_message_id", _str),
            reason=_need(value, "reason", _str),
            detail=_need(value, "detail", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "id": self.id,
            "client_message_id": self.client_message_id,
            "reason": self.reason,
            "detail": self.detail,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPressureEvent:
    """The outbox fills up."""

    ts: str
    mesh: str
    percent: float
    level: str

    @classmethod
    def from_json(cls, value: Any) -> OutboxPressureEvent:
        value = _object(value, "OutboxPressureEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            percent=_need(value, "percent", _float),
            level=_need(value, "level", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "percent": self.percent,
            "level": self.level,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRevokedEvent:
    """A member's key counts no more; with `self` it is this one's, and nothing follows."""

    ts: str
    mesh: str
    self_: bool | None = None
    pubkey: str | None = None
    event: str | None = None
    member_id: str | None = None
    name: str | None = None
    more: dict[str, Any] | None = None
    """What else it says."""

    @classmethod
    def from_json(cls, value: Any) -> MemberRevokedEvent:
        value = _object(value, "MemberRevokedEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            self_=_may(value, "self", _bool),
            pubkey=_may(value, "pubkey", _str),
            event=_may(value, "event", _str),
            member_id=_may(value, "memberId", _str),
            name=_may(value, "name", _str),
            more={name: value[name] for name in value if name not in {"ts", "mesh", "self", "pubkey", "event", "memberId", "name"}},
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
        }
        if self.self_ is not None:
            out["self"] = self.self_
        if self.pubkey is not None:
            out["pubkey"] = self.pubkey
        if self.event is not None:
            out["event"] = self.event
        if self.member_id is not None:
            out["memberId"] = self.member_id
        if self.name is not None:
            out["name"] = self.name
        out.update(self.more or {})
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGapEvent:
    """The broker no longer has what came between."""

    ts: str
    mesh: str
    reset: bool | None = None
    from_: int | None = None
    to: int | None = None

    @classmethod
    def from_json(cls, value: Any) -> HistoryGapEvent:
        value = _object(value, "HistoryGapEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            reset=_may(value, "reset", _bool),
            from_=_may(value, "from", _int),
            to=_may(value, "to", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
        }
        if self.reset is not None:
            out["reset"] = self.reset
        if self.from_ is not None:
            out["from"] = self.from_
        if self.to is not None:
            out["to"] = self.to
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKeyMissingEvent:
    """Messages of a topic wait for its key."""

    ts: str
    mesh: str
    topic: str | None = None
    epoch: int

    @classmethod
    def from_json(cls, value: Any) -> TopicKeyMissingEvent:
        value = _object(value, "TopicKeyMissingEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            topic=_may(value, "topic", _str),
            epoch=_need(value, "epoch", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "topic": self.topic,
            "epoch": self.epoch,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEvent:
    """Something the broker says; `event` says what."""

    ts: str
    mesh: str
    event: str
    more: dict[str, Any] | None = None
    """What else it says."""

    @classmethod
    def from_json(cls, value: Any) -> SystemEvent:
        value = _object(value, "SystemEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            event=_need(value, "event", _str),
            more={name: value[name] for name in value if name not in {"ts", "mesh", "event"}},
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "event": self.event,
        }
        out.update(self.more or {})
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class KeypairRotatedEvent:
    """A member has another key; with `self` it is this one."""

    ts: str
    mesh: str
    member_id: str
    name: str
    old_pubkey: str
    new_pubkey: str
    grace_until: str
    self_: bool | None = None
    more: dict[str, Any] | None = None
    """What else it says."""

    @classmethod
    def from_json(cls, value: Any) -> KeypairRotatedEvent:
        value = _object(value, "KeypairRotatedEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            member_id=_need(value, "memberId", _str),
            name=_need(value, "name", _str),
            old_pubkey=_need(value, "oldPubkey", _str),
            new_pubkey=_need(value, "newPubkey", _str),
            grace_until=_need(value, "graceUntil", _str),
            self_=_may(value, "self", _bool),
            more={name: value[name] for name in value if name not in {"ts", "mesh", "memberId", "name", "oldPubkey", "newPubkey", "graceUntil", "self"}},
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "memberId": self.member_id,
            "name": self.name,
            "oldPubkey": self.old_pubkey,
            "newPubkey": self.new_pubkey,
            "graceUntil": self.grace_until,
        }
        if self.self_ is not None:
            out["self"] = self.self_
        out.update(self.more or {})
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class HookExecutedEvent:
    """A hook ran."""

    ts: str
    mesh: str
    hook: str
    event_id: str
    exit: int
    duration_ms: int
    stdout_bytes: int
    stderr_bytes: int
    replied: bool
    capability_calls: int
    reason: str | None = None
    """Why it has no exit status of its own."""

    @classmethod
    def from_json(cls, value: Any) -> HookExecutedEvent:
        value = _object(value, "HookExecutedEvent")
        return cls(
            ts=_need(value, "ts", _str),
            mesh=_need(value, "mesh", _str),
            hook=_need(value, "hook", _str),
            event_id=_need(value, "event_id", _str),
            exit=_need(value, "exit", _int),
            duration_ms=_need(value, "duration_ms", _int),
            stdout_bytes=_need(value, "stdout_bytes", _int),
            stderr_bytes=_need(value, "stderr_bytes", _int),
            replied=_need(value, "replied", _bool),
            capability_calls=_need(value, "capability_calls", _int),
            reason=_may(value, "reason", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "ts": self.ts,
            "mesh": self.mesh,
            "hook": self.hook,
            "event_id": self.event_id,
            "exit": self.exit,
            "duration_ms": self.duration_ms,
            "stdout_bytes": self.stdout_bytes,
            "stderr_bytes": self.stderr_bytes,
            "replied": self.replied,
            "capability_calls": self.capability_calls,
        }
        if self.reason is not None:
            out["reason"] = self.reason
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class GapEvent:
    """The id this stream was to go on after is no longer known. It has no id of its own; `resume` is the page of the inbox to read."""

    from_: str
    resume: str

    @classmethod
    def from_json(cls, value: Any) -> GapEvent:
        value = _object(value, "GapEvent")
        return cls(
            from_=_need(value, "from", _str),
            resume=_need(value, "resume", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "from": self.from_,
            "resume": self.resume,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the contract's clients."""

    id: str
    name: str
    aliases: list[str]

    @classmethod
    def from_json(cls, value: Any) -> Command:
        value = _object(value, "Command")
        return cls(
            id=_need(value, "id", _str),
            name=_need(value, "name", _str),
            aliases=_need(value, "aliases", _list(_str)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "aliases": self.aliases,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """initialize."""

    protocol_version: int
    server_version: str
    server_pid: int
    tui_id: str
    capabilities: list[str]
    commands: list[Command]
    tui_sig: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> Initialized:
        value = _object(value, "Initialized")
        return cls(
            protocol_version=_need(value, "protocol_version", _int),
            server_version=_need(value, "server_version", _str),
            server_pid=_need(value, "server_pid", _int),
            tui_id=_need(value, "tui_id", _str),
            capabilities=_need(value, "capabilities", _list(_str)),
            commands=_need(value, "commands", _list(Command.from_json)),
            tui_sig=_may(value, "tui_sig", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "protocol_version": self.protocol_version,
            "server_version": self.server_version,
            "server_pid": self.server_pid,
            "tui_id": self.tui_id,
            "capabilities": self.capabilities,
            "commands": [item.to_json() for item in self.commands],
        }
        if self.tui_sig is not None:
            out["tui_sig"] = self.tui_sig
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent that can be asked for."""

    alias: str
    enabled: bool
    channels: list[str]
    kind: str
    model: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> Agent:
        value = _object(value, "Agent")
        return cls(
            alias=_need(value, "alias", _str),
            enabled=_need(value, "enabled", _bool),
            channels=_need(value, "channels", _list(_str)),
            kind=_need(value, "kind", _str),
            model=_may(value, "model", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "alias": self.alias,
            "enabled": self.enabled,
            "channels": self.channels,
            "kind": self.kind,
            "model": self.model,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentList:
    """agents/list."""

    agents: list[Agent]

    @classmethod
    def from_json(cls, value: Any) -> AgentList:
        value = _object(value, "AgentList")
        return cls(
            agents=_need(value, "agents", _list(Agent.from_json)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "agents": [item.to_json() for item in self.agents],
        }
        return out

Mode = Literal["auto", "code", "plan", "ask"]
"""What an agent may do without asking."""

MeshPolicy = Literal["off", "ask", "on"]
"""What becomes of messages from meshes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMade:
    """session/new."""

    session_id: str
    agent_alias: str
    message_count: int
    workspace_dir: str
    mode: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> SessionMade:
        value = _object(value, "SessionMade")
        return cls(
            session_id=_need(value, "session_id", _str),
            agent_alias=_need(value, "agent_alias", _str),
            message_count=_need(value, "message_count", _int),
            workspace_dir=_need(value, "workspace_dir", _str),
            mode=_may(value, "mode", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "agent_alias": self.agent_alias,
            "message_count": self.message_count,
            "workspace_dir": self.workspace_dir,
        }
        if self.mode is not None:
            out["mode"] = self.mode
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What it cost."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float

    @classmethod
    def from_json(cls, value: Any) -> Usage:
        value = _object(value, "Usage")
        return cls(
            input_tokens=_need(value, "input_tokens", _int),
            output_tokens=_need(value, "output_tokens", _int),
            cached_tokens=_need(value, "cached_tokens", _int),
            cost_usd=_need(value, "cost_usd", _float),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "cost_usd": self.cost_usd,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The guard around the agent of a session."""

    setting: str
    active: str
    why_not_stronger: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> Guard:
        value = _object(value, "Guard")
        return cls(
            setting=_need(value, "setting", _str),
            active=_need(value, "active", _str),
            why_not_stronger=_may(value, "why_not_stronger", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "setting": self.setting,
            "active": self.active,
        }
        if self.why_not_stronger is not None:
            out["why_not_stronger"] = self.why_not_stronger
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session of the house."""

    session_id: str
    session_key: str
    created_at: str
    last_activity: str
    message_count: int
    agent_alias: str
    status: str
    standing: str
    mode: str
    hosting: str
    cwd: str
    door: str
    queued: int
    last_seq: int
    turns: int
    usage: Usage
    address: str | None = None
    mesh: str
    name: str | None = None
    model: str | None = None
    running_turn: int | None = None
    cli_session_id: str | None = None
    pid: int | None = None
    guard: Guard | None = None

    @classmethod
    def from_json(cls, value: Any) -> SessionInfo:
        value = _object(value, "SessionInfo")
        return cls(
            session_id=_need(value, "session_id", _str),
            session_key=_need(value, "session_key", _str),
            created_at=_need(value, "created_at", _str),
            last_activity=_need(value, "last_activity", _str),
            message_count=_need(value, "message_count", _int),
            agent_alias=_need(value, "agent_alias", _str),
            status=_need(value, "status", _str),
            standing=_need(value, "standing", _str),
            mode=_need(value, "mode", _str),
            hosting=_need(value, "hosting", _str),
            cwd=_need(value, "cwd", _str),
            door=_need(value, "door", _str),
            queued=_need(value, "queued", _int),
            last_seq=_need(value, "last_seq", _int),
            turns=_need(value, "turns", _int),
            usage=_need(value, "usage", Usage.from_json),
            address=_may(value, "address", _str),
            mesh=_need(value, "mesh", _str),
            name=_may(value, "name", _str),
            model=_may(value, "model", _str),
            running_turn=_may(value, "running_turn", _int),
            cli_session_id=_may(value, "cli_session_id", _str),
            pid=_may(value, "pid", _int),
            guard=_may(value, "guard", Guard.from_json),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "session_key": self.session_key,
            "created_at": self.created_at,
            "last_activity": self.last_activity,
            "message_count": self.message_count,
            "agent_alias": self.agent_alias,
            "status": self.status,
            "standing": self.standing,
            "mode": self.mode,
            "hosting": self.hosting,
            "cwd": self.cwd,
            "door": self.door,
            "queued": self.queued,
            "last_seq": self.last_seq,
            "turns": self.turns,
            "usage": self.usage.to_json(),
            "address": self.address,
            "mesh": self.mesh,
        }
        if self.name is not None:
            out["name"] = self.name
        if self.model is not None:
            out["model"] = self.model
        if self.running_turn is not None:
            out["running_turn"] = self.running_turn
        if self.cli_session_id is not None:
            out["cli_session_id"] = self.cli_session_id
        if self.pid is not None:
            out["pid"] = self.pid
        if self.guard is not None:
            out["guard"] = self.guard.to_json() if self.guard is not None else None
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList:
    """session/list: newest first."""

    sessions: list[SessionInfo]

    @classmethod
    def from_json(cls, value: Any) -> SessionList:
        value = _object(value, "SessionList")
        return cls(
            sessions=_need(value, "sessions", _list(SessionInfo.from_json)),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "sessions": [item.to_json() for item in self.sessions],
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSent:
    """session/send: the prompt is on disk."""

    session_id: str
    turn: int
    position: int
    after_seq: int
    """What happens in this turn comes after it."""

    @classmethod
    def from_json(cls, value: Any) -> PromptSent:
        value = _object(value, "PromptSent")
        return cls(
            session_id=_need(value, "session_id", _str),
            turn=_need(value, "turn", _int),
            position=_need(value, "position", _int),
            after_seq=_need(value, "after_seq", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "turn": self.turn,
            "position": self.position,
            "after_seq": self.after_seq,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """session/attach; the updates follow."""

    session_id: str
    first_seq: int
    last_seq: int
    status: str

    @classmethod
    def from_json(cls, value: Any) -> Attached:
        value = _object(value, "Attached")
        return cls(
            session_id=_need(value, "session_id", _str),
            first_seq=_need(value, "first_seq", _int),
            last_seq=_need(value, "last_seq", _int),
            status=_need(value, "status", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "status": self.status,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """session/detach."""

    session_id: str
    detached: bool

    @classmethod
    def from_json(cls, value: Any) -> Detached:
        value = _object(value, "Detached")
        return cls(
            session_id=_need(value, "session_id", _str),
            detached=_need(value, "detached", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "detached": self.detached,
        }
        return out

Decision = Literal["allow_once", "allow_always", "reject", "reject_with_edit"]
"""What becomes of an agent's request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """session/approve; also for a request that is settled or unknown."""

    session_id: str
    request_id: str
    acknowledged: bool

    @classmethod
    def from_json(cls, value: Any) -> Acknowledged:
        value = _object(value, "Acknowledged")
        return cls(
            session_id=_need(value, "session_id", _str),
            request_id=_need(value, "request_id", _str),
            acknowledged=_need(value, "acknowledged", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "request_id": self.request_id,
            "acknowledged": self.acknowledged,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """session/cancel."""

    session_id: str
    cancelled: bool

    @classmethod
    def from_json(cls, value: Any) -> Cancelled:
        value = _object(value, "Cancelled")
        return cls(
            session_id=_need(value, "session_id", _str),
            cancelled=_need(value, "cancelled", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "cancelled": self.cancelled,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """session/interrupt."""

    session_id: str
    interrupted: bool

    @classmethod
    def from_json(cls, value: Any) -> Interrupted:
        value = _object(value, "Interrupted")
        return cls(
            session_id=_need(value, "session_id", _str),
            interrupted=_need(value, "interrupted", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "interrupted": self.interrupted,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """session/close."""

    session_id: str
    closed: bool

    @classmethod
    def from_json(cls, value: Any) -> Closed:
        value = _object(value, "Closed")
        return cls(
            session_id=_need(value, "session_id", _str),
            closed=_need(value, "closed", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "closed": self.closed,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """session/kill."""

    session_id: str
    killed: bool

    @classmethod
    def from_json(cls, value: Any) -> Killed:
        value = _object(value, "Killed")
        return cls(
            session_id=_need(value, "session_id", _str),
            killed=_need(value, "killed", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "killed": self.killed,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted:
    """session/delete."""

    session_id: str
    deleted: bool

    @classmethod
    def from_json(cls, value: Any) -> SessionDeleted:
        value = _object(value, "SessionDeleted")
        return cls(
            session_id=_need(value, "session_id", _str),
            deleted=_need(value, "deleted", _bool),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "deleted": self.deleted,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessage:
    """A question or an answer."""

    role: str
    content: str

    @classmethod
    def from_json(cls, value: Any) -> SessionMessage:
        value = _object(value, "SessionMessage")
        return cls(
            role=_need(value, "role", _str),
            content=_need(value, "content", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "role": self.role,
            "content": self.content,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessages:
    """session/messages: a page, counted from the end."""

    session_id: str
    messages: list[SessionMessage]
    total: int
    start: int

    @classmethod
    def from_json(cls, value: Any) -> SessionMessages:
        value = _object(value, "SessionMessages")
        return cls(
            session_id=_need(value, "session_id", _str),
            messages=_need(value, "messages", _list(SessionMessage.from_json)),
            total=_need(value, "total", _int),
            start=_need(value, "start", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "messages": [item.to_json() for item in self.messages],
            "total": self.total,
            "start": self.start,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A turn has begun."""

    type: str
    session_id: str
    prompt: str
    door: str
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> TurnStarted:
        value = _object(value, "TurnStarted")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            prompt=_need(value, "prompt", _str),
            door=_need(value, "door", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "prompt": self.prompt,
            "door": self.door,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChunk:
    """A piece of the answer."""

    type: str
    session_id: str
    text: str
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> MessageChunk:
        value = _object(value, "MessageChunk")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            text=_need(value, "text", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "text": self.text,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtChunk:
    """A piece of what the agent thinks."""

    type: str
    session_id: str
    text: str
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> ThoughtChunk:
        value = _object(value, "ThoughtChunk")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            text=_need(value, "text", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "text": self.text,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The agent uses a tool."""

    type: str
    session_id: str
    tool_call_id: str
    name: str
    raw_input: Any
    """The agent's own."""
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> ToolCall:
        value = _object(value, "ToolCall")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            tool_call_id=_need(value, "tool_call_id", _str),
            name=_need(value, "name", _str),
            raw_input=_need(value, "raw_input", _any),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "raw_input": self.raw_input,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the tool gave."""

    type: str
    session_id: str
    tool_call_id: str
    name: str
    raw_output: str
    failed: bool
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> ToolResult:
        value = _object(value, "ToolResult")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            tool_call_id=_need(value, "tool_call_id", _str),
            name=_need(value, "name", _str),
            raw_output=_need(value, "raw_output", _str),
            failed=_need(value, "failed", _bool),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "raw_output": self.raw_output,
            "failed": self.failed,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """The agent asks whether it may. Answer with session/approve."""

    type: str
    session_id: str
    request_id: str
    tool_name: str
    arguments_summary: str
    timeout_secs: int
    raw_input: Any
    turn: int
    tool_call_id: str | None = None
    seq: int | None = None

    @classmethod
    def from_json(cls, value: Any) -> ApprovalRequest:
        value = _object(value, "ApprovalRequest")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            request_id=_need(value, "request_id", _str),
            tool_name=_need(value, "tool_name", _str),
            arguments_summary=_need(value, "arguments_summary", _str),
            timeout_secs=_need(value, "timeout_secs", _int),
            raw_input=_need(value, "raw_input", _any),
            turn=_need(value, "turn", _int),
            tool_call_id=_may(value, "tool_call_id", _str),
            seq=_may(value, "seq", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "request_id": self.request_id,
            "tool_name": self.tool_name,
            "arguments_summary": self.arguments_summary,
            "timeout_secs": self.timeout_secs,
            "raw_input": self.raw_input,
            "turn": self.turn,
        }
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        if self.seq is not None:
            out["seq"] = self.seq
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResolved:
    """It was answered, or is not asked any more."""

    type: str
    session_id: str
    request_id: str
    decision: str
    """A word of session/approve, or `withdrawn`."""
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> ApprovalResolved:
        value = _object(value, "ApprovalResolved")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            request_id=_need(value, "request_id", _str),
            decision=_need(value, "decision", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "request_id": self.request_id,
            "decision": self.decision,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """How full the agent's memory is."""

    type: str
    session_id: str
    seq: int
    turn: int
    input_tokens: int | None = None
    max_context_tokens: int | None = None

    @classmethod
    def from_json(cls, value: Any) -> ContextUsage:
        value = _object(value, "ContextUsage")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
            input_tokens=_may(value, "input_tokens", _int),
            max_context_tokens=_may(value, "max_context_tokens", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "seq": self.seq,
            "turn": self.turn,
        }
        if self.input_tokens is not None:
            out["input_tokens"] = self.input_tokens
        if self.max_context_tokens is not None:
            out["max_context_tokens"] = self.max_context_tokens
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """A step of a plan."""

    content: str
    status: str
    priority: str

    @classmethod
    def from_json(cls, value: Any) -> PlanEntry:
        value = _object(value, "PlanEntry")
        return cls(
            content=_need(value, "content", _str),
            status=_need(value, "status", _str),
            priority=_need(value, "priority", _str),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "content": self.content,
            "status": self.status,
            "priority": self.priority,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the agent is going to do; replaces the list before."""

    type: str
    session_id: str
    entries: list[PlanEntry]
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> Plan:
        value = _object(value, "Plan")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            entries=_need(value, "entries", _list(PlanEntry.from_json)),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "entries": [item.to_json() for item in self.entries],
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to know; the turn goes on."""

    type: str
    session_id: str
    message: str
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> Notice:
        value = _object(value, "Notice")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            message=_need(value, "message", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "message": self.message,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnError:
    """Something went wrong; the turn goes on."""

    type: str
    session_id: str
    message: str
    seq: int
    turn: int

    @classmethod
    def from_json(cls, value: Any) -> TurnError:
        value = _object(value, "TurnError")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            message=_need(value, "message", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "message": self.message,
            "seq": self.seq,
            "turn": self.turn,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnComplete:
    """The turn is over."""

    type: str
    session_id: str
    outcome: str
    content: str
    seq: int
    turn: int
    usage: Usage

    @classmethod
    def from_json(cls, value: Any) -> TurnComplete:
        value = _object(value, "TurnComplete")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            outcome=_need(value, "outcome", _str),
            content=_need(value, "content", _str),
            seq=_need(value, "seq", _int),
            turn=_need(value, "turn", _int),
            usage=_need(value, "usage", Usage.from_json),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "outcome": self.outcome,
            "content": self.content,
            "seq": self.seq,
            "turn": self.turn,
            "usage": self.usage.to_json(),
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateGap:
    """Updates that are gone for good."""

    type: str
    session_id: str
    from_seq: int
    to_seq: int

    @classmethod
    def from_json(cls, value: Any) -> UpdateGap:
        value = _object(value, "UpdateGap")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            from_seq=_need(value, "from_seq", _int),
            to_seq=_need(value, "to_seq", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "from_seq": self.from_seq,
            "to_seq": self.to_seq,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayComplete:
    """All of it was sent."""

    type: str
    session_id: str
    last_seq: int

    @classmethod
    def from_json(cls, value: Any) -> ReplayComplete:
        value = _object(value, "ReplayComplete")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            last_seq=_need(value, "last_seq", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "last_seq": self.last_seq,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFailed:
    """The rest cannot be read."""

    type: str
    session_id: str
    last_seq: int

    @classmethod
    def from_json(cls, value: Any) -> ReplayFailed:
        value = _object(value, "ReplayFailed")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            last_seq=_need(value, "last_seq", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "last_seq": self.last_seq,
        }
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed:
    """The session was closed; nothing follows."""

    type: str
    session_id: str
    last_seq: int

    @classmethod
    def from_json(cls, value: Any) -> SessionClosed:
        value = _object(value, "SessionClosed")
        return cls(
            type=_need(value, "type", _str),
            session_id=_need(value, "session_id", _str),
            last_seq=_need(value, "last_seq", _int),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is on the wire."""
        out: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "last_seq": self.last_seq,
        }
        return out


AnyEvent = BrokerStatusEvent | DisconnectEvent | FileSharedEvent | GapEvent | HistoryGapEvent | HookExecutedEvent | KeypairRotatedEvent | MemberRevokedEvent | MessageEvent | OutboxDeadEvent | OutboxPressureEvent | PeerEvent | ReconnectEvent | SystemEvent | TopicKeyMissingEvent
EVENTS: dict[str, Callable[[Any], AnyEvent]] = {
    "message": MessageEvent.from_json,
    "file_shared": FileSharedEvent.from_json,
    "peer_join": PeerEvent.from_json,
    "peer_leave": PeerEvent.from_json,
    "daemon_disconnect": DisconnectEvent.from_json,
    "daemon_reconnect": ReconnectEvent.from_json,
    "broker_status": BrokerStatusEvent.from_json,
    "outbox_dead": OutboxDeadEvent.from_json,
    "outbox_pressure_high": OutboxPressureEvent.from_json,
    "member_revoked": MemberRevokedEvent.from_json,
    "history_gap": HistoryGapEvent.from_json,
    "topic_key_missing": TopicKeyMissingEvent.from_json,
    "member_keypair_rotated": KeypairRotatedEvent.from_json,
    "hook_executed": HookExecutedEvent.from_json,
    "system": SystemEvent.from_json,
    "gap": GapEvent.from_json,
}
"""The class of each event's data."""

Update = TurnStarted | MessageChunk | ThoughtChunk | ToolCall | ToolResult | ApprovalRequest | ApprovalResolved | ContextUsage | Plan | Notice | TurnError | TurnComplete | UpdateGap | ReplayComplete | ReplayFailed | SessionClosed
UPDATES: dict[str, Callable[[Any], Update]] = {
    "turn_started": TurnStarted.from_json,
    "agent_message_chunk": MessageChunk.from_json,
    "agent_thought_chunk": ThoughtChunk.from_json,
    "tool_call": ToolCall.from_json,
    "tool_result": ToolResult.from_json,
    "approval_request": ApprovalRequest.from_json,
    "approval_resolved": ApprovalResolved.from_json,
    "context_usage": ContextUsage.from_json,
    "plan": Plan.from_json,
    "notice": Notice.from_json,
    "error": TurnError.from_json,
    "turn_complete": TurnComplete.from_json,
    "gap": UpdateGap.from_json,
    "replay_complete": ReplayComplete.from_json,
    "replay_failed": ReplayFailed.from_json,
    "session_closed": SessionClosed.from_json,
}
"""The class of each update of a session."""
