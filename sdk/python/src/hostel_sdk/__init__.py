"""hostel for Python programs: meshes of hosts, and the agent sessions of this one.

`Mesh` and `House` are for asyncio; `hostel_sdk.sync` has the same for scripts. No dependencies.
"""

from . import models
from ._errors import (
    AmbiguousMesh,
    BadMesh,
    ConnectionLost,
    DaemonUnreachable,
    HostelError,
    HouseError,
    IncompatibleDaemon,
    MeshError,
    ProtocolError,
    TurnFailed,
)
from ._events import Event, EventStream
from ._house import House, OtherUpdate, Session, UpdateStream
from ._mesh import Mesh
from .models import SDK_VERSION

__version__ = SDK_VERSION

__all__ = [
    "AmbiguousMesh",
    "BadMesh",
    "ConnectionLost",
    "DaemonUnreachable",
    "Event",
    "EventStream",
    "HostelError",
    "House",
    "HouseError",
    "IncompatibleDaemon",
    "Mesh",
    "MeshError",
    "OtherUpdate",
    "ProtocolError",
    "Session",
    "TurnFailed",
    "UpdateStream",
    "__version__",
    "models",
]
