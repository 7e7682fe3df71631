"""The ends of runs: for requests that wait for them, and counted."""

import asyncio
import contextlib
import functools
import sys
import time

from aegra_api.core.redis_manager import redis_manager
from aegra_api.settings import settings
from redis import RedisError
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from . import start
from .database import execute, sessions
from .leases import leases
from .outages import is_noted, is_outage
from .start import lease_s

# How often a waiting request asks the database, in case that an announcement was lost.
ask_s = 3


class Ends:
    """Announces the ends of runs to all replicas. Aegra asks every two seconds."""

    def __init__(self):
        self.waiting = {}
        self.listener = None

    async def listen(self):
        while True:
            try:
                async with redis_manager.get_client().pubsub() as channel:
                    await channel.subscribe(ends_channel())
                    while True:
                        message = await channel.get_message(ignore_subscribe_messages=True, timeout=1)
                        for event in self.waiting.get(message["data"], ()) if message is not None else ():
                            event.set()
            except (RedisError, OSError):
                await asyncio.sleep(1)


ends = Ends()


def ends_channel():
    return f"{settings.redis.REDIS_CHANNEL_PREFIX}ends"


async def announce_end(run_id):
    with contextlib.suppress(RedisError):
        await redis_manager.get_client().publish(ends_channel(), run_id)


def signal_run_done(original):
    async def signal(run_id):
        await original(run_id)
        await announce_end(run_id)

    return signal


def wait_for_completion(_original):
    async def wait(_self, run_id, *, timeout=300.0):
        from aegra_api.services.worker_executor import _is_run_terminal

        if ends.listener is None:
            ends.listener = asyncio.create_task(ends.listen())
        event = asyncio.Event()
        waiting = ends.waiting.setdefault(run_id, set())
        waiting.add(event)
        end = time.monotonic() + timeout
        try:
            while True:
                event.clear()
                if await _is_run_terminal(run_id):
                    return
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"Run {run_id} did not complete within {timeout}s")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), min(ask_s, left))
        finally:
            waiting.discard(event)
            if not waiting:
                ends.waiting.pop(run_id, None)

    return wait


# How long a run whose PostgreSQL or Redis was away waits before it goes back into the queue.
pause_s = 1

# How often the end of a run is written again while PostgreSQL is away.
write_s = 0.5

losses = "coalesce((execution_params ->> '_retry_count')::int, 0)"

# One outage may break several connections. Those that break within a lease count as one.
is_counted = f"coalesce((execution_params ->> 'counted_at')::float8, 0) > extract(epoch FROM now()) - {lease_s}"

count_loss = f"""UPDATE runs SET execution_params = execution_params || CASE WHEN {is_counted} THEN '{{}}'
        ELSE jsonb_build_object('_retry_count', {losses} + 1, 'counted_at', extract(epoch FROM now())) END
    WHERE run_id = :run AND status = 'running' AND ({is_counted} OR {losses} < :retries) RETURNING run_id"""


def finalize_run(original):
    """A run whose PostgreSQL or Redis was away goes on at its last checkpoint. Aegra would end it with an error."""

    @functools.wraps(original)
    async def finalize(run_id, *given, **how):
        if how.get("status") == "error" and is_noted(sys.exc_info()[1]) and await may_retry(run_id):
            await asyncio.sleep(pause_s)
            # `release` hands it back.
            return False
        finalized = await write_end(run_id, functools.partial(original, run_id, *given, **how))
        await count_tokens()
        if finalized and how.get("status") == "error":
            await count("failed", 1)
        return finalized

    return finalize


async def may_retry(run_id):
    """Counts the loss. A run that is lost too often without a new checkpoint may itself be the reason, by a state that is too large."""
    if not leases.keeps(run_id):
        return True
    async with sessions() as session:
        await execute(session, forgive, runs=[run_id])
        counted = (await execute(session, count_loss, run=run_id, retries=settings.worker.BG_JOB_MAX_RETRIES)).first()
        await session.commit()
    return counted is not None


async def write_end(run_id, write):
    """Writes the end of a run, again and again while PostgreSQL is away, but not after another replica may have taken the run over."""
    is_executed_here = run_id in leases.held
    while not is_executed_here or leases.keeps(run_id):
        try:
            return await write()
        except Exception as error:
            if not is_executed_here or not is_outage(error):
                raise
        await asyncio.sleep(write_s)
    return False


# Only losses without a new checkpoint count against a run: it may be the run that kills its replicas.
forgive = """UPDATE runs SET execution_params = execution_params || jsonb_build_object('_retry_count', 0, 'lost_at', latest)
    FROM (SELECT run_id AS id, (SELECT max(checkpoint_id) FROM checkpoints WHERE checkpoints.thread_id = lost.thread_id) AS latest
            FROM runs AS lost WHERE run_id = ANY(:runs)) AS found
    WHERE run_id = id AND status = 'running' AND latest IS DISTINCT FROM execution_params ->> 'lost_at'"""


def recover(original):
    async def recover_crashed_runs(run_ids):
        async with sessions() as session:
            await execute(session, forgive, runs=run_ids)
            await session.commit()
        retryable, exhausted = await original(run_ids)
        await count("recovered", len(retryable))
        await count("failed", len(exhausted))
        return retryable, exhausted

    return recover_crashed_runs


async def count(name, by):
    with contextlib.suppress(RedisError):
        await redis_manager.get_client().hincrby(f"{ends_channel()}:counts", name, by)


token_names = ("input_tokens", "output_tokens")


async def count_tokens():
    """Adds what this replica has counted to the counts of all."""
    for name, by in start.tokens.take().items():
        if by > 0:
            await count(name, by)


def add_routes(app):
    """Adds what other agent servers answer, before routes that match everything. Routes of the agent with these paths win."""

    async def ok(_request):
        return JSONResponse({"ok": True})

    own = {getattr(route, "path", None) for route in app.router.routes}
    for path, answer in {"/ok": ok, "/metrics": metrics}.items():
        if path not in own:
            app.router.routes.insert(0, Route(path, answer))


async def metrics(request):
    """The runs are those of all replicas, as in the other engines."""
    from aegra_api.services.executor import executor

    async with sessions() as session:
        found = await execute(
            session,
            """SELECT count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'running'),
                      coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE status = 'pending')), 0),
                      (SELECT extract(epoch FROM min(next_run_date) - now()) FROM crons WHERE enabled)
                 FROM runs WHERE status IN ('pending', 'running')""",
        )
        pending, running, waited, next_cron = found.one()
    counts = {}
    await count_tokens()
    with contextlib.suppress(RedisError):
        counts = await redis_manager.get_client().hgetall(f"{ends_channel()}:counts")
    queue = {
        "n_pending": pending,
        "n_running": running,
        "pending_runs_wait_time_max_secs": float(waited),
        "n_failed": int(counts.get("failed", 0)),
        "n_recovered": int(counts.get("recovered", 0)),
        **{f"n_{name}": int(counts[name]) for name in token_names if name in counts},
        # Pending runs are due at once. Null: nothing waits and nothing is planned.
        "next_due_secs": 0 if pending else None if next_cron is None else max(0, float(next_cron)),
    }
    most, active = settings.worker.N_JOBS_PER_WORKER, len(executor._job_tasks)
    if request.query_params.get("format") == "json":
        return JSONResponse({"workers": {"max": most, "active": active, "available": max(0, most - active)}, "queue": queue})
    names = ("num_pending_runs", "num_running_runs", "pending_runs_wait_time_max", "failed_runs_total", "recovered_runs_total")
    names += tuple(f"{name}_total" for name in token_names if name in counts)
    kind = lambda name: "counter" if name.endswith("_total") else "gauge"
    lines = [f"# TYPE lg_api_{name} {kind(name)}\nlg_api_{name} {value}\n" for name, value in zip(names, queue.values())]
    return PlainTextResponse("".join(lines))
