"""Client of the Pierhead control plane: `Pierhead`, and `AsyncPierhead` for asyncio."""

from .client import AsyncPierhead, Pierhead
from .failures import ApiError, DeployFailed, PierheadError, WaitTimeout

__all__ = ["ApiError", "AsyncPierhead", "DeployFailed", "Pierhead", "PierheadError", "WaitTimeout"]
