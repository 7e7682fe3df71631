"""The leases of the runs in progress."""

import asyncio
import contextlib
import threading
import time

import psycopg
from aegra_api.settings import settings

from .start import lease_s, renew_s

# This process ends a run before another one may take it over.
kept_s = 0.7 * lease_s


class Leases:
    """Renews the leases of this process in a thread of its own, because agents block the event loop."""

    def __init__(self):
        self.held = {}
        self.loop = None

    def start(self, loop):
        self.loop = loop
        threading.Thread(target=self.renew, daemon=True, name="leases").start()

    def renew(self):
        connection = None
        while True:
            time.sleep(renew_s)
            held = dict(self.held)
            if not held:
                continue
            sent_at = time.monotonic()
            try:
                connection = connection or self.connect()
                rows = connection.execute(
                    """UPDATE runs SET lease_expires_at = to_timestamp(%s) FROM unnest(%s::text[], %s::text[]) AS held (run, worker)
                        WHERE run_id = run AND claimed_by = worker RETURNING run_id""",
                    [time.time() + lease_s, list(held), [worker for worker, _, _ in held.values()]],
                ).fetchall()
                kept = {run_id for (run_id,) in rows}
                for run_id in kept & held.keys():
                    held[run_id][2][0] = sent_at
            except Exception:
                # Another replica takes a run over when its lease ends.
                with contextlib.suppress(Exception):
                    connection.close()
                connection = None
                kept = {run_id for run_id in held if self.keeps(run_id)}
            for run_id in held.keys() - kept:
                self.loop.call_soon_threadsafe(held[run_id][1])

    def keeps(self, run_id):
        """Whether no other replica can have the run yet."""
        held = self.held.get(run_id)
        return held is not None and time.monotonic() - held[2][0] < kept_s

    @staticmethod
    def connect():
        return psycopg.connect(settings.db.database_url_sync, autocommit=True, connect_timeout=3, tcp_user_timeout=3000)


leases = Leases()


def hold_lease(_original):
    async def hold(run_id, worker_name, *, job_task):
        from aegra_api.services.run_executor import _lease_loss_cancellations

        def lose():
            if run_id in leases.held and not job_task.done():
                _lease_loss_cancellations.add(run_id)
                job_task.cancel()

        leases.held[run_id] = (worker_name, lose, [time.monotonic()])
        try:
            # A renewal may hang in a broken network for longer than the lease.
            while leases.keeps(run_id):
                await asyncio.sleep(1)
            lose()
            await asyncio.Event().wait()
        finally:
            leases.held.pop(run_id, None)

    return hold
