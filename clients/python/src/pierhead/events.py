"""Reads the event stream: where it stands across connections, and what its lines mean."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import httpx

from .rest.models import Event
from .steps import OUTAGE_MAX, is_passing

#: The server sends something at least this often, in seconds.
SILENCE_MAX = 45.0


class EventReader:
    """Position of one watch, across its connections (server-sent events of the HTML standard)."""

    def __init__(self, deployment_id: UUID | str | None, types: Sequence[str], after: str | None) -> None:
        self._path = "/v2/events" if deployment_id is None else f"/v2/deployments/{deployment_id}/events"
        self._params = {"types": ",".join(types)} if types else {}
        if after is not None:
            self._params["after"] = after
        self._position: str | None = None
        self._failures = 0
        self._heard_at = time.monotonic()
        self._fields: dict[str, str] = {}

    def request(self) -> dict[str, Any]:
        """Returns the arguments of the next connection."""
        self._fields = {}
        headers = {"Accept": "text/event-stream"}
        if self._position is not None:
            headers["Last-Event-ID"] = self._position
        return {
            "url": self._path,
            "params": self._params,
            "headers": headers,
            "timeout": httpx.Timeout(30, read=SILENCE_MAX),
        }

    def feed(self, line: str) -> Iterator[Event]:
        """Takes one line, and yields the event that it ends."""
        self._heard_at = time.monotonic()
        if line != "":
            name, _, value = line.partition(":")
            if name in {"id", "event", "data"}:
                self._fields[name] = value.removeprefix(" ")
            return
        fields, self._fields = self._fields, {}
        if "id" in fields:
            self._position = fields["id"]
            self._failures = 0
        if fields.get("data") and fields.get("event") not in {"reset", "log"}:
            yield Event.from_dict(json.loads(fields["data"]))

    def pause(self) -> float:
        """Returns the seconds before the next connection."""
        self._failures += 1
        return float(min(0.25 * 2**self._failures, 5.0))

    def silence(self) -> float:
        """Returns the seconds since the last line."""
        return time.monotonic() - self._heard_at


def failed_too_long(reader: EventReader, error: Exception) -> bool:
    """Whether a lost connection is final: the server refuses, or stays away."""
    return not is_passing(error) or reader.silence() > OUTAGE_MAX
