"""The errors of the client. Errors of the network are those of httpx."""

from __future__ import annotations

import json
from typing import Any

import httpx

from .rest.models import Revision


class PierheadError(Exception):
    """Base of all errors of this package."""


class ApiError(PierheadError):
    """The server refused a call.

    Attributes:
        status: HTTP status.
        code: Identifier of the problem, of those that have one; otherwise None.
        request_id: What to quote when you report the problem.
    """

    def __init__(self, response: httpx.Response) -> None:
        problem = _json(response)
        detail = problem.get("detail") or response.text[:500] or response.reason_phrase
        if not isinstance(detail, str):  # The form of older clients: a list of fields.
            detail = "; ".join(_field(one) for one in detail)
        self.status = response.status_code
        self.code: str | None = problem.get("error")
        self.request_id: str | None = response.headers.get("x-request-id")
        #: Seconds after which the server wants to be asked again.
        self.retry_after = _seconds(response.headers.get("retry-after"))
        self.problem = problem
        super().__init__(f"HTTP {self.status}: {detail}")


class DeployFailed(PierheadError):
    """A revision ended in a status other than DEPLOYED. The message has the cause; `revision` is what the server says."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        cause = revision.status_message or "The server gave no cause."
        super().__init__(f"Revision {revision.id} is {revision.status.value}. {cause}")


class WaitTimeout(PierheadError):
    """What was awaited has not happened yet. The server goes on with it."""


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdigit() else None


def _field(one: Any) -> str:
    if not isinstance(one, dict):
        return str(one)
    place = ".".join(str(part) for part in one.get("loc", []))
    return f"{place}: {one.get('msg', one)}"
