"""The queue of runs: one run at a time on a thread, on all replicas."""

import contextlib
import time

from aegra_api.core.orm import Run
from aegra_api.core.redis_manager import redis_manager
from aegra_api.models.run_job import RunJob
from aegra_api.settings import settings
from fastapi import HTTPException
from redis import RedisError
from sqlalchemy.exc import IntegrityError

from .database import execute, sessions
from .ends import announce_end
from .leases import leases
from .start import lease_s

# A run that ignored them would start too early, or end without a word.
unknown_fields = {"after_seconds", "webhook"}

strategies = ("enqueue", "reject", "interrupt", "rollback")

# During a rollout, replicas of two revisions share the queue. A run of a graph that one of them lacks is left to the other for a minute.
has_graph = "(execution_params ->> 'graph_id' = ANY(:graphs) OR created_at < now() - interval '1 minute')"

# Whether a run is the next one of its thread: none is in progress there, and none has waited longer.
is_next = """NOT EXISTS (SELECT FROM runs other WHERE other.thread_id = runs.thread_id AND other.run_id <> runs.run_id AND (
    other.status = 'running' OR (other.status = 'pending' AND (other.created_at, other.run_id) < (runs.created_at, runs.run_id))))"""


def prepare_run(original):
    """Aegra only stores the strategy for a thread that has a run already. The lock of the thread ends with the run's insertion."""

    async def prepare(session, thread_id, request, user, **how):
        from aegra_api.api.runs import _request_run_interruption
        from aegra_api.services.run_preparation import _validate_resume_command

        strategy = request.multitask_strategy or "enqueue"
        if strategy not in strategies:
            raise HTTPException(422, f"multitask_strategy must be one of {', '.join(strategies)}, not '{strategy}'")
        for field in unknown_fields & (request.model_extra or {}).keys():
            if request.model_extra[field] is not None:
                raise HTTPException(422, f"The engine aegra has no {field}. Send the run without it.")
        # It may wait for the end of an earlier run, so it comes before the lock.
        await _validate_resume_command(session, thread_id, request.command)
        active = []
        if strategy != "enqueue":
            await execute(session, "SELECT pg_advisory_xact_lock(hashtextextended(:thread, 0))", thread=thread_id)
            found = await execute(
                session, "SELECT run_id FROM runs WHERE thread_id = :thread AND status IN ('pending', 'running')", thread=thread_id
            )
            active = [run_id for (run_id,) in found]
        if active and strategy == "reject":
            text = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy."
            raise HTTPException(409, text)
        if active:
            # A replica that dies with such a run does not hand it on.
            await execute(
                session,
                """UPDATE runs SET execution_params = coalesce(execution_params, '{}') || jsonb_build_object('superseded', cast(:strategy AS text))
                    WHERE run_id = ANY(:active) AND status IN ('pending', 'running')""",
                strategy=strategy,
                active=active,
            )
        prepared = await original(session, thread_id, request, user, **how)
        for run_id in active:
            run = await session.get(Run, run_id)
            if run is not None:
                await _request_run_interruption(session, run, "interrupt")
        return prepared

    return prepare


def acquire(_original):
    """Aegra runs any pending run. Here a thread has one run at a time, on all replicas, in the order in which they were created."""

    async def acquire_and_load(run_id, worker_name):
        from aegra_api.services.langgraph_service import get_langgraph_service
        from aegra_api.services.streaming_service import streaming_service
        from aegra_api.services.worker_executor import _LoadedRun

        # This process has lost the run and is still ending it. The reaper queues it again.
        if run_id in leases.held:
            return None
        async with sessions() as session:
            try:
                claimed = await execute(
                    session,
                    f"""UPDATE runs SET claimed_by = :worker, lease_expires_at = to_timestamp(:until), status = 'running'
                         WHERE run_id = :run AND status = 'pending' AND claimed_by IS NULL AND {is_next} AND {has_graph}
                         RETURNING thread_id""",
                    graphs=list(get_langgraph_service().list_graphs()),
                    worker=worker_name,
                    until=time.time() + lease_s,
                    run=run_id,
                )
            except IntegrityError:
                return None
            row = claimed.first()
            if row is None:
                return None
            run = await session.get(Run, run_id)
            is_superseded = "superseded" in run.execution_params
            if is_superseded:
                # Its replica died before it could be interrupted.
                run.status, run.claimed_by, run.lease_expires_at = "interrupted", None, None
                await session.flush()
            await undo(session, row.thread_id)
            await session.commit()
        if is_superseded:
            await streaming_service.signal_run_cancelled(run_id)
            await announce_end(run_id)
            await wake(row.thread_id)
            return None
        return _LoadedRun(job=RunJob.from_run_orm(run), trace=run.execution_params.get("trace", {}))

    return acquire_and_load


async def undo(session, thread_id):
    """Deletes the ended runs that a later run rolls back, with their checkpoints."""
    undone = await execute(
        session,
        """DELETE FROM runs WHERE thread_id = :thread AND execution_params ->> 'superseded' = 'rollback'
            AND status NOT IN ('pending', 'running') RETURNING run_id""",
        thread=thread_id,
    )
    run_ids = [run_id for (run_id,) in undone]
    if run_ids:
        of_runs = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = :thread AND metadata ->> 'run_id' = ANY(:runs)"
        values = {"thread": thread_id, "runs": run_ids}
        for table in ("checkpoint_writes", "checkpoints"):
            await execute(session, f"DELETE FROM {table} WHERE thread_id = :thread AND checkpoint_id IN ({of_runs})", **values)


def release(_original):
    """A run whose end could not be written, because the database was away, goes back into the queue. Aegra would leave it running."""

    async def release_lease(run_id, worker_name):
        async with sessions() as session:
            released = await execute(
                session,
                """UPDATE runs SET claimed_by = NULL, lease_expires_at = NULL, status = CASE status WHEN 'running' THEN 'pending' ELSE status END
                    WHERE run_id = :run AND claimed_by = :worker RETURNING thread_id""",
                run=run_id,
                worker=worker_name,
            )
            row = released.first()
            await session.commit()
        if row is not None:
            await wake(row.thread_id)

    return release_lease


def requeue(_original):
    """`release` has handed the runs over already: other replicas may have them. Aegra would take them away again."""

    async def requeue_drained_runs(run_ids):
        async with sessions() as session:
            found = await execute(
                session, "SELECT run_id FROM runs WHERE run_id = ANY(:runs) AND status = 'pending' AND claimed_by IS NULL", runs=run_ids
            )
            waiting = [run_id for (run_id,) in found]
        for run_id in waiting:
            await enqueue(run_id)

    return requeue_drained_runs


async def wake(thread_id):
    """Queues the next run of a thread. If this replica dies before, the reaper does it."""
    async with sessions() as session:
        found = await execute(
            session,
            f"SELECT run_id FROM runs WHERE thread_id = :thread AND status = 'pending' AND claimed_by IS NULL AND {is_next}",
            thread=thread_id,
        )
        row = found.first()
    if row is not None:
        await enqueue(row.run_id)


async def enqueue(run_id):
    """Puts a run into the queue. Without Redis, workers find it in PostgreSQL."""
    with contextlib.suppress(RedisError):
        await redis_manager.get_client().rpush(settings.worker.WORKER_QUEUE_KEY, run_id)


def submit(_original):
    """The run is in PostgreSQL already, so its request must not fail with Redis."""

    async def submit_job(_self, job):
        await enqueue(job.identity.run_id)

    return submit_job


def poll(_original):
    async def poll_postgres():
        async with sessions() as session:
            found = await execute(
                session,
                f"SELECT run_id FROM runs WHERE status = 'pending' AND claimed_by IS NULL AND {is_next} ORDER BY created_at LIMIT 1",
            )
            row = found.first()
        return None if row is None else row.run_id

    return poll_postgres


def missing_from_queue(original):
    async def missing(run_ids):
        async with sessions() as session:
            found = await execute(session, f"SELECT run_id FROM runs WHERE run_id = ANY(:runs) AND {is_next}", runs=run_ids)
            ready = [run_id for (run_id,) in found]
        return await original(ready)

    return missing


def interrupt_unowned_run(original):
    async def interrupt(session, run_id, thread_id, **how):
        interrupted = await original(session, run_id, thread_id, **how)
        if interrupted:
            await announce_end(run_id)
            await wake(thread_id)
        return interrupted

    return interrupt
