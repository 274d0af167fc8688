"""What can go wrong.

Every error is a `HostelError`. `code` is a stable word (of the house: a number); texts are for people and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import TurnComplete


class HostelError(Exception):
    """Anything that this package raises on purpose."""

    code: str | int = "error"


class DaemonUnreachable(HostelError):
    """Nobody answers: the daemon does not run, or not here."""

    code = "daemon_unreachable"


class ConnectionLost(HostelError):
    """The connection broke after a request that must not be repeated blindly: it may have been carried out."""

    code = "connection_lost"


class AmbiguousMesh(HostelError):
    """Several meshes have a daemon here and none was named."""

    code = "ambiguous_mesh"


class BadMesh(HostelError):
    """What was named cannot be the name of a mesh."""

    code = "bad_mesh"


class IncompatibleDaemon(HostelError):
    """The daemon speaks another major version."""

    code = "incompatible_daemon"


class ProtocolError(HostelError):
    """An answer that is none of the contract's."""

    code = "protocol_error"


class MeshError(HostelError):
    """The mesh daemon refused something."""

    def __init__(self, status: int, body: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        """The HTTP status."""
        self.code = str(body.get("error", "unknown"))
        self.detail = str(body.get("detail", ""))
        """For people."""
        field = body.get("field")
        self.field: str | None = field if isinstance(field, str) else None
        """The argument it is about."""
        self.body = body
        """All of the answer."""
        self.retry_after = retry_after
        """When to come back, in seconds."""
        super().__init__(f"{self.detail or self.code} ({self.code})")


class HouseError(HostelError):
    """The house refused something."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{message} ({code})")


class TurnFailed(HostelError):
    """An agent's turn ended without an answer: it failed, or somebody stopped it."""

    def __init__(self, turn: TurnComplete) -> None:
        self.code = f"turn_{turn.outcome}"
        """`turn_failed` or `turn_cancelled`."""
        self.turn = turn
        """How it ended."""
        super().__init__(f"{turn.content or turn.outcome} ({self.code})")
