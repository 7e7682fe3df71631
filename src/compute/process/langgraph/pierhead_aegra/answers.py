"""Changes API responses in which Aegra differs from what LangGraph clients expect."""

import functools
import sys

from aegra_api.core.auth_deps import get_current_user
from aegra_api.core.auth_filters import build_metadata_filter
from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.core.database import db_manager
from aegra_api.core.orm import Thread, get_session
from aegra_api.core.serializers import LangGraphSerializer
from aegra_api.models import ThreadCreate, ThreadSearchRequest, User
from aegra_api.models.store import StoreGetResponse
from fastapi import Depends, HTTPException
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from .database import execute, sessions

# What Aegra adds to the metadata of every thread, until a run or the client sets it. Without an auth of the agent, all users are one.
unset = {"assistant_id": None, "graph_id": None, "thread_name": "", "owner": "anonymous"}

deadlock_detected = "40P01"
# Of a request. Each deadlock ends one of the thread's runs.
retries_max = 5


def rewrap(router, path, method, make, **options):
    """Replaces what answers a route. Functions of Aegra that call each other stay as they are."""
    route = next(one for one in router.routes if one.path == path and method in one.methods)
    at = router.routes.index(route)
    router.add_api_route(path, make(route.endpoint), methods=[method], status_code=route.status_code, responses=route.responses, **options)
    router.routes[at] = router.routes.pop()


def mend_routes():
    from aegra_api.api import runs, store, threads

    rewrap(store.router, "/store/items", "GET", missing_item, response_model=StoreGetResponse | None)
    rewrap(threads.router, "/threads/{thread_id}", "GET", with_values, response_model=None)
    rewrap(threads.router, "/threads/search", "POST", with_values, response_model=None)
    for path in ("/threads", "/threads/{thread_id}"):
        rewrap(threads.router, path, "PATCH" if "{" in path else "POST", without_unset, response_model=None)
    rewrap(threads.router, "/threads/{thread_id}", "DELETE", despite_deadlocks)
    add_routes(threads.router)
    for path in ("/threads/{thread_id}/runs", "/threads/{thread_id}/runs/stream", "/threads/{thread_id}/runs/wait"):
        rewrap(runs.router, path, "POST", on_known_thread, response_model=None)


def add_routes(router):
    """Routes that the SDKs call and that Aegra lacks."""
    from aegra_api.api import threads

    async def count(request: ThreadSearchRequest, user: User = Depends(get_current_user), session: AsyncSession = Depends(get_session)):
        filters = await handle_event(build_auth_context(user, "threads", "search"), request.model_dump())
        found = select(func.count()).select_from(Thread).where(Thread.user_id == user.identity)
        given = (
            build_metadata_filter(Thread.metadata_json, filters),
            Thread.status == request.status if request.status else None,
            Thread.metadata_json.op("@>")(request.metadata) if request.metadata else None,
        )
        return await session.scalar(found.where(*(one for one in given if one is not None)))

    async def copy(thread_id: str, user: User = Depends(get_current_user), session: AsyncSession = Depends(get_session)):
        one = await threads.get_thread(thread_id, user, session)
        made = await threads.create_thread(ThreadCreate(metadata=plain(one)["metadata"]), user, session)
        for table, columns in state_columns.items():
            statement = f"INSERT INTO {table} (thread_id, {columns}) SELECT :made, {columns} FROM {table} WHERE thread_id = :given"
            await execute(session, statement, made=made.thread_id, given=thread_id)
        await session.commit()
        return await with_state(made)

    router.add_api_route("/threads/count", count, methods=["POST"], response_model=None)
    router.add_api_route("/threads/{thread_id}/copy", copy, methods=["POST"], response_model=None)


state_columns = {
    "checkpoints": "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
    "checkpoint_blobs": "checkpoint_ns, channel, version, type, blob",
    "checkpoint_writes": "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob",
}


def missing_item(original):
    """A client gets null for an item that does not exist."""

    @functools.wraps(original)
    async def get(*given, **named):
        try:
            return await original(*given, **named)
        except HTTPException as error:
            if error.status_code == 404:
                return None
            raise

    return get


def without_unset(original):
    @functools.wraps(original)
    async def answer(*given, **named):
        return plain(await original(*given, **named))

    return answer


def plain(thread):
    shown = thread.model_dump(mode="json")
    shown.pop("user_id", None)
    shown["metadata"] = {key: value for key, value in shown["metadata"].items() if key not in unset or value != unset[key]}
    return shown


def with_values(original):
    """Clients expect values and interrupts in lists of threads. Aegra returns them with the state only."""

    @functools.wraps(original)
    async def answer(*given, **named):
        found = await original(*given, **named)
        if isinstance(found, list):
            return [await with_state(thread) for thread in found]
        return await with_state(found)

    return answer


async def with_state(thread):
    shown = plain(thread)
    stored = await db_manager.get_checkpointer().aget_tuple({"configurable": {"thread_id": thread.thread_id, "checkpoint_ns": ""}})
    if stored is None:
        return {**shown, "values": None, "interrupts": {}}
    serialize = LangGraphSerializer().serialize
    values = {name: value for name, value in stored.checkpoint["channel_values"].items() if is_state(name)}
    interrupts = {}
    for task, channel, value in stored.pending_writes or ():
        if channel == "__interrupt__":
            interrupts[task] = [serialize(one) for one in (value if isinstance(value, (list, tuple)) else [value])]
    return {**shown, "values": serialize(values), "interrupts": interrupts if shown["status"] == "interrupted" else {}}


def is_state(channel):
    return not channel.startswith("__") and ":" not in channel


def on_known_thread(original):
    """A run on a thread that does not exist creates it only if the request asks for it."""

    @functools.wraps(original)
    async def start(*given, **named):
        request, thread_id = named["request"], named["thread_id"]
        if getattr(request, "if_not_exists", None) != "create":
            async with sessions() as session:
                known = await session.scalar(select(Thread.thread_id).where(Thread.thread_id == thread_id))
            if known is None:
                raise HTTPException(404, f"Thread '{thread_id}' not found")
        return await original(*given, **named)

    return start


def despite_deadlocks(original):
    """
    Deleting a thread locks its row, then those of its runs. A run that ends locks them in the other order, and PostgreSQL then refuses one
    of the two statements.
    """

    @functools.wraps(original)
    async def delete(*given, **named):
        for _ in range(retries_max):
            try:
                return await original(*given, **named)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != deadlock_detected:
                    raise
                await named["session"].rollback()
        return await original(*given, **named)

    return delete


def read_assistant(original):
    """The name of a graph stands for its assistant, as in requests for runs."""

    async def read(self, assistant_id):
        from aegra_api.utils.assistants import resolve_assistant_id

        return await original(self, resolve_assistant_id(assistant_id, self.langgraph_service.list_graphs()))

    return read


def signal_error(original):
    """The stream of a run has the message of its error, as its result has it."""

    async def signal(self, run_id, error_message, error_type="Error"):
        error = sys.exc_info()[1]
        if error is not None and type(error).__name__ == error_type:
            error_message = str(error)
        await original(self, run_id, error_message, error_type)

    return signal
