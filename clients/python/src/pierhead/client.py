"""The clients: the same calls, one blocking, one for asyncio."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID, uuid4

import httpx

from . import steps
from .events import EventReader, failed_too_long
from .failures import ApiError
from .rest import AuthenticatedClient
from .rest.models import Deployment, Event, LogEntry, Revision
from .source import pack
from .steps import Call, Emit, Pause, Steps

T = TypeVar("T")

#: The longest time that a deployment takes, in seconds.
DEPLOY_TIMEOUT = 1800.0


class _Settings:
    """Where the server is and who calls."""

    def __init__(self, url: str | None, api_key: str | None, workspace: str | None) -> None:
        self.url = (url or os.environ.get("PIERHEAD_URL") or "http://127.0.0.1:8124").rstrip("/")
        key = api_key or os.environ.get("PIERHEAD_API_KEY")
        if not key:
            raise ValueError("Give api_key, or set PIERHEAD_API_KEY.")
        self.headers = {"X-Api-Key": key}
        workspace = workspace or os.environ.get("PIERHEAD_WORKSPACE")
        if workspace:
            self.headers["X-Tenant-Id"] = workspace

    def headers_for(self, deployment: Deployment, key_host: str | None) -> dict[str, str]:
        """Returns the headers for an agent: none for a host that is not ours and that the caller has not named."""
        own, asked = httpx.URL(self.url), httpx.URL(deployment.url or "")
        is_own = asked.host == own.host or asked.host.endswith(f".{own.host}") or asked.host.endswith(".localhost")
        is_plain = own.scheme == "https" and asked.scheme != "https"
        return dict(self.headers) if (is_own and not is_plain) or (asked.host != "" and asked.host == key_host) else {}

    def rest(self, hook: Any) -> AuthenticatedClient:
        return AuthenticatedClient(
            base_url=self.url,
            token=self.headers["X-Api-Key"],
            auth_header_name="X-Api-Key",
            prefix="",
            headers={name: value for name, value in self.headers.items() if name != "X-Api-Key"},
            timeout=httpx.Timeout(30),
            httpx_args={"event_hooks": {"response": [hook]}},
        )


def _arguments(call: Call, key: str) -> dict[str, Any]:
    """Returns the arguments of httpx. A signed URL gets no key."""
    headers = {} if call.method == "GET" or call.path.startswith("http") else {"Idempotency-Key": key}
    if call.content is not None:
        headers["Content-Type"] = "application/gzip"
    if call.if_match is not None:
        headers["If-Match"] = call.if_match
    given: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "params": call.params or None,
        "headers": headers,
        "timeout": call.timeout,
    }
    if call.json is not None:
        given["json"] = call.json
    if call.content is not None:
        given["content"] = call.content
    return given


def _raise_for_problem(response: httpx.Response) -> None:
    if response.is_error:
        response.read()
        raise ApiError(response)


async def _raise_for_problem_async(response: httpx.Response) -> None:
    if response.is_error:
        await response.aread()
        raise ApiError(response)


class Pierhead:
    """A blocking client. Close it, or use it as a context manager.

    `rest` serves the functions of `pierhead.rest.api`, one for each operation: `list_listeners.sync(client=client.rest)`.

    Args:
        url: Address of the server. Default: PIERHEAD_URL, then http://127.0.0.1:8124.
        api_key: Default: PIERHEAD_API_KEY.
        workspace: Id of a workspace, which only keys of an organization need. Default: PIERHEAD_WORKSPACE.

    Raises:
        ValueError: There is no key.

    Every method raises ApiError when the server refuses, and httpx.TransportError when it does not answer. Transient
    failures are retried up to three times; a change takes effect once. A wait goes on through an outage of the server, until
    its own timeout.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None, workspace: str | None = None) -> None:
        self._settings = _Settings(url, api_key, workspace)
        self.rest = self._settings.rest(_raise_for_problem)
        self._http = self.rest.get_httpx_client()
        self._bare = httpx.Client(event_hooks={"response": [_raise_for_problem]})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()
        self._bare.close()

    def deployments(self, **filters: Any) -> Iterator[Deployment]:
        """Yields the deployments of the workspace. Filters are those of the API: `name_contains="bot"`, `health="live"`."""
        yield from self._each(steps.list_deployments(filters))

    def deployment(self, name: str) -> Deployment | None:
        """Returns the deployment of this name, or None."""
        return self._run(steps.find_deployment(name))

    def deploy(
        self,
        name: str,
        directory: str | os.PathLike[str],
        *,
        config: str | None = None,
        variables: Mapping[str, str] | None = None,
        timeout: float = DEPLOY_TIMEOUT,
    ) -> Deployment:
        """Uploads a directory and returns the deployment when it serves.

        Args:
            config: Path of its langgraph.json or pierhead.json. Default: what the server recognizes.
            variables: Set before the new revision starts. Others stay.

        Raises:
            DeployFailed: The build or the start failed; the message has the cause.
            ValueError: No server was recognized in the directory.
            WaitTimeout: It takes longer than `timeout` seconds.
        """
        return self._run(steps.deploy(name, pack(directory), config, variables or {}, timeout))

    def wait_for_revision(
        self, deployment_id: UUID | str, revision_id: UUID | str, timeout: float = DEPLOY_TIMEOUT
    ) -> Revision:
        """Returns the revision when it serves. Raises DeployFailed when it never will, and WaitTimeout."""
        return self._run(steps.wait_for_revision(deployment_id, revision_id, timeout))

    def delete(self, deployment_id: UUID | str, timeout: float = DEPLOY_TIMEOUT) -> None:
        """Deletes a deployment, with its data, and waits until it is gone."""
        self._run(steps.delete_deployment(deployment_id, timeout))

    def logs(
        self,
        deployment_id: UUID | str,
        *,
        type: str = "deploy",
        revision_id: UUID | str | None = None,
        level: str | None = None,
        query: str | None = None,
        follow: bool = False,
    ) -> Iterator[LogEntry]:
        """Yields log lines, oldest first. Type `deploy` is what the agent writes, `build` the log of a build.

        With `follow`, it goes on as lines arrive, until the log of a build ends.
        """
        yield from self._each(steps.follow_logs(deployment_id, revision_id, type, level, query, follow))

    def events(
        self, deployment_id: UUID | str | None = None, *, types: Sequence[str] = (), after: str | None = None
    ) -> Iterator[Event]:
        """Yields what happens, as it happens, each event once. Reconnects when the connection is lost.

        Args:
            deployment_id: Default: the whole workspace.
            after: `event_id` of the last known event; `"0"`: the oldest stored one. Default: from now on.
        """
        reader = EventReader(deployment_id, types, after)
        while True:
            try:
                with self._http.stream("GET", **reader.request()) as response:
                    for line in response.iter_lines():
                        yield from reader.feed(line)
            except (ApiError, httpx.TransportError) as error:
                if failed_too_long(reader, error):
                    raise
            time.sleep(reader.pause())

    def agent(self, deployment: Deployment, *, key_host: str | None = None) -> httpx.Client:
        """Returns an HTTP client of the deployed server. Close it when you are done.

        It sends the key to the server's own host and its subdomains. The address of a deployment can be any host, which gets
        no key unless you name the host in `key_host`.
        """
        headers = self._settings.headers_for(deployment, key_host)
        return httpx.Client(base_url=deployment.url or "", headers=headers, timeout=300)

    def _call(self, call: Call) -> httpx.Response:
        key = str(uuid4())
        http = self._bare if call.path.startswith("http") else self._http
        attempt = 0
        while True:
            try:
                return http.request(**_arguments(call, key))
            except (ApiError, httpx.TransportError) as error:
                attempt += 1
                seconds = steps.retry_after(error, attempt, call.attempts)
                if seconds is None:
                    raise
                time.sleep(seconds)

    def _each(self, work: Steps[Any]) -> Iterator[Any]:
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                step = work.send(answer) if failure is None else work.throw(failure)
            except StopIteration:
                return
            answer, failure = None, None
            if isinstance(step, Emit):
                yield step.value
            elif isinstance(step, Pause):
                time.sleep(step.seconds)
            else:
                try:
                    answer = self._call(step)
                except (ApiError, httpx.TransportError) as error:
                    failure = error

    def _run(self, work: Steps[T]) -> T:
        def emit_result() -> Steps[None]:
            yield Emit((yield from work))

        result: T = next(iter(self._each(emit_result())))
        return result


class AsyncPierhead:
    """The client for asyncio. Its methods are those of `Pierhead`."""

    def __init__(self, url: str | None = None, api_key: str | None = None, workspace: str | None = None) -> None:
        self._settings = _Settings(url, api_key, workspace)
        self.rest = self._settings.rest(_raise_for_problem_async)
        self._http = self.rest.get_async_httpx_client()
        self._bare = httpx.AsyncClient(event_hooks={"response": [_raise_for_problem_async]})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()
        await self._bare.aclose()

    async def deployments(self, **filters: Any) -> AsyncIterator[Deployment]:
        async for one in self._each(steps.list_deployments(filters)):
            yield one

    async def deployment(self, name: str) -> Deployment | None:
        return await self._run(steps.find_deployment(name))

    async def deploy(
        self,
        name: str,
        directory: str | os.PathLike[str],
        *,
        config: str | None = None,
        variables: Mapping[str, str] | None = None,
        timeout: float = DEPLOY_TIMEOUT,
    ) -> Deployment:
        archive = await asyncio.to_thread(pack, directory)
        return await self._run(steps.deploy(name, archive, config, variables or {}, timeout))

    async def wait_for_revision(
        self, deployment_id: UUID | str, revision_id: UUID | str, timeout: float = DEPLOY_TIMEOUT
    ) -> Revision:
        return await self._run(steps.wait_for_revision(deployment_id, revision_id, timeout))

    async def delete(self, deployment_id: UUID | str, timeout: float = DEPLOY_TIMEOUT) -> None:
        await self._run(steps.delete_deployment(deployment_id, timeout))

    async def logs(
        self,
        deployment_id: UUID | str,
        *,
        type: str = "deploy",
        revision_id: UUID | str | None = None,
        level: str | None = None,
        query: str | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogEntry]:
        async for one in self._each(steps.follow_logs(deployment_id, revision_id, type, level, query, follow)):
            yield one

    async def events(
        self, deployment_id: UUID | str | None = None, *, types: Sequence[str] = (), after: str | None = None
    ) -> AsyncIterator[Event]:
        reader = EventReader(deployment_id, types, after)
        while True:
            try:
                async with self._http.stream("GET", **reader.request()) as response:
                    async for line in response.aiter_lines():
                        for event in reader.feed(line):
                            yield event
            except (ApiError, httpx.TransportError) as error:
                if failed_too_long(reader, error):
                    raise
            await asyncio.sleep(reader.pause())

    def agent(self, deployment: Deployment, *, key_host: str | None = None) -> httpx.AsyncClient:
        headers = self._settings.headers_for(deployment, key_host)
        return httpx.AsyncClient(base_url=deployment.url or "", headers=headers, timeout=300)

    async def _call(self, call: Call) -> httpx.Response:
        key = str(uuid4())
        http = self._bare if call.path.startswith("http") else self._http
        attempt = 0
        while True:
            try:
                return await http.request(**_arguments(call, key))
            except (ApiError, httpx.TransportError) as error:
                attempt += 1
                seconds = steps.retry_after(error, attempt, call.attempts)
                if seconds is None:
                    raise
                await asyncio.sleep(seconds)

    async def _each(self, work: Steps[Any]) -> AsyncIterator[Any]:
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                step = work.send(answer) if failure is None else work.throw(failure)
            except StopIteration:
                return
            answer, failure = None, None
            if isinstance(step, Emit):
                yield step.value
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            else:
                try:
                    answer = await self._call(step)
                except (ApiError, httpx.TransportError) as error:
                    failure = error

    async def _run(self, work: Steps[T]) -> T:
        def emit_result() -> Steps[None]:
            yield Emit((yield from work))

        result: T = await anext(aiter(self._each(emit_result())))
        return result
