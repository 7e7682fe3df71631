"""What the helpers do, apart from how it is sent: each is a generator of steps, which one driver performs and another awaits.

A generator yields `Call`, `Pause` or `Emit`. It gets the response of a call back, and raises what the caller shall see.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import httpx

from .failures import ApiError, DeployFailed, WaitTimeout
from .rest.models import Deployment, LogEntry, Revision
from .source import Archive

T = TypeVar("T")

#: The longest page of logs and of deployments that the helpers ask for.
PAGE = 100

#: Waits poll after this many seconds at first and at most.
INTERVAL_FIRST = 0.25
INTERVAL_MAX = 1.0

#: Attempts of one call.
ATTEMPTS = 4

#: Attempts of a change that others, or a rollout of the deployment, get ahead of.
CHANGES = 12

#: A restarting server is back within this many seconds. Logs and events are followed across such outages.
OUTAGE_MAX = 60.0


@dataclass(frozen=True)
class Call:
    """A request to the API, or to an absolute URL that carries its own signature."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    #: Of the request that the change is based on: the server refuses it when the resource changed since.
    if_match: str | None = None
    #: Seconds.
    timeout: float = 30
    #: Attempts of a driver when the failure may pass. Waits have their own deadline, so they use one.
    attempts: int = ATTEMPTS


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Emit:
    """A value of an iterator."""

    value: Any


Step = Call | Pause | Emit
Steps = Generator[Step, Any, T]

_FINAL = {"DEPLOYED", "SKIPPED", "INTERRUPTED"}


def list_deployments(filters: Mapping[str, Any]) -> Steps[None]:
    """Emits each deployment of the workspace that fits the filters."""
    offset = 0
    while True:
        response = yield Call("GET", "/v2/deployments", {**filters, "limit": PAGE, "offset": offset})
        found = response.json()["resources"]
        for one in found:
            yield Emit(Deployment.from_dict(one))
        offset += len(found)
        if len(found) < PAGE:
            return


def find_deployment(name: str) -> Steps[Deployment | None]:
    """Returns the deployment of this exact name, or None."""
    response = yield Call("GET", "/v2/deployments", {"name": name, "limit": 1})
    found = response.json()["resources"]
    return Deployment.from_dict(found[0]) if found else None


def deploy(
    name: str, archive: Archive, config: str | None, variables: Mapping[str, str], timeout: float
) -> Steps[Deployment]:
    """Uploads a source, and waits until it serves. Creates the deployment if there is none of this name."""
    if config is None:
        answer = yield Call("POST", "/v2/detections/archive", content=archive.content, timeout=300)
        detection = answer.json()
        config = detection["config_path"]
        if config is None:
            raise ValueError(
                detection["problem"]["message"] if detection["problem"] else "No server was found in this directory."
            )
    deployment = yield from find_deployment(name)
    secrets = [{"name": key, "value": value} for key, value in variables.items()]
    if deployment is None:
        body = {
            "name": name,
            "source": "internal_source",
            "source_config": {},
            "source_revision_config": {},
            "secrets": secrets,
        }
        answer = yield Call("POST", "/v2/deployments", json=body)
        deployment = Deployment.from_dict(answer.json())
    upload = (yield Call("POST", f"/v2/deployments/{deployment.id}/upload-url")).json()
    yield Call("PUT", upload["upload_url"], content=archive.content, timeout=300)
    change: dict[str, Any] = {
        "source_revision_config": {"source_tarball_path": upload["object_path"], "langgraph_config_path": config}
    }
    if deployment.source.value != "internal_source":
        change["revision_source"] = "internal_source"
    changed = yield from _change(deployment.id, change, variables)
    if changed.latest_revision_id is None:
        raise WaitTimeout("The server has not created a revision yet.")
    yield from wait_for_revision(changed.id, changed.latest_revision_id, timeout)
    return (yield from read_deployment(changed.id))


def _change(deployment_id: UUID | str, change: Mapping[str, Any], variables: Mapping[str, str]) -> Steps[Deployment]:
    """Changes a deployment and adds the variables, in one revision. A change of another user in between is kept."""
    path = f"/v2/deployments/{deployment_id}"
    if not variables:
        return Deployment.from_dict((yield Call("PATCH", path, json=change)).json())
    for attempt in range(1, CHANGES + 1):
        read = yield Call("GET", path)
        # The list replaces the present one. Values that the server does not show are kept when they come back as they were.
        kept = [one for one in read.json()["secrets"] if one["name"] not in variables]
        secrets = kept + [{"name": key, "value": value} for key, value in variables.items()]
        # Compressing proxies mark the tag as weak, which the server does not take.
        tag = read.headers["etag"].removeprefix("W/")
        try:
            answer = yield Call("PATCH", path, json={**change, "secrets": secrets}, if_match=tag)
        except ApiError as error:
            if error.status != 412 or attempt == CHANGES:
                raise
            yield Pause(random.uniform(0, 0.2))
        else:
            return Deployment.from_dict(answer.json())
    raise AssertionError("unreachable")


def read_deployment(deployment_id: UUID | str) -> Steps[Deployment]:
    response = yield Call("GET", f"/v2/deployments/{deployment_id}")
    return Deployment.from_dict(response.json())


def wait_for_revision(deployment_id: UUID | str, revision_id: UUID | str, timeout: float) -> Steps[Revision]:
    """Returns the revision when it serves. Raises DeployFailed when it never will, and WaitTimeout."""
    ends = time.monotonic() + timeout
    interval = INTERVAL_FIRST
    while True:
        response = yield from _patient(f"/v2/deployments/{deployment_id}/revisions/{revision_id}", {}, ends)
        revision = Revision.from_dict(response.json())
        status = revision.status.value
        if status == "DEPLOYED":
            return revision
        if status in _FINAL or status.endswith("_FAILED"):
            raise DeployFailed(revision)
        if time.monotonic() > ends:
            raise WaitTimeout(f"Revision {revision_id} is still {status} after {timeout:g} s.")
        yield Pause(interval)
        interval = min(interval * 1.5, INTERVAL_MAX)


def delete_deployment(deployment_id: UUID | str, timeout: float) -> Steps[None]:
    """Deletes a deployment and waits until it is gone."""
    yield Call("DELETE", f"/v2/deployments/{deployment_id}")
    ends = time.monotonic() + timeout
    while True:
        try:
            yield from _patient(f"/v2/deployments/{deployment_id}", {}, ends)
        except ApiError as error:
            if error.status == 404:
                return
            raise
        if time.monotonic() > ends:
            raise WaitTimeout(f"Deployment {deployment_id} is still being deleted after {timeout:g} s.")
        yield Pause(INTERVAL_MAX)


def follow_logs(
    deployment_id: UUID | str,
    revision_id: UUID | str | None,
    kind: str,
    level: str | None,
    text: str | None,
    follow: bool,
) -> Steps[None]:
    """Emits the lines of a log, oldest first and each once. The log of a build ends; that of an agent is followed without end."""
    path = f"/v2/deployments/{deployment_id}/logs"
    if revision_id is not None:
        path = f"/v2/deployments/{deployment_id}/revisions/{revision_id}/logs"
    question = {"type": kind, "level": level, "query": text, "order": "asc", "limit": PAGE}
    params = {key: value for key, value in question.items() if value is not None}
    while True:
        page = (yield from _patient(path, params, time.monotonic() + OUTAGE_MAX)).json()
        for one in page["logs"]:
            yield Emit(LogEntry.from_dict(one))
        if page["next_offset"] is None:
            return
        params = {**params, "offset": page["next_offset"]}
        if len(page["logs"]) < PAGE:
            if not follow:
                return
            yield Pause(INTERVAL_MAX)


def _patient(path: str, params: Mapping[str, Any], ends: float) -> Steps[httpx.Response]:
    """Returns the response to a read. While the server is away or busy, it asks again until `ends`."""
    interval = INTERVAL_FIRST
    while True:
        try:
            response: httpx.Response = yield Call("GET", path, params, attempts=1)
            return response
        except (ApiError, httpx.TransportError) as error:
            if not is_passing(error) or time.monotonic() > ends:
                raise
            pause = (error.retry_after if isinstance(error, ApiError) else None) or interval
        yield Pause(max(min(pause, ends - time.monotonic()), 0))
        interval = min(interval * 1.5, INTERVAL_MAX)


def is_passing(error: Exception) -> bool:
    """Whether a later attempt may succeed: the server is unreachable, busy, or failed at this one call."""
    if isinstance(error, ApiError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, httpx.TransportError)


def retry_after(error: Exception, attempt: int, attempts: int) -> float | None:
    """Returns how many seconds to wait before the next attempt; None: the error is final."""
    if attempt >= attempts or not is_passing(error):
        return None
    pause = error.retry_after if isinstance(error, ApiError) else None
    return min(pause or 0.25 * 2**attempt, 30)
