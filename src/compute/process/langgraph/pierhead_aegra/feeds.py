"""Writes the events of a step before its checkpoint.

A step with a checkpoint is not run again. Aegra writes checkpoints and events in any order, so a replica that is killed in between
leaves a stream without the events of the step.
"""

import asyncio
import contextlib
import functools

# Turns of the event loop after which a graph that has handed on nothing has nothing to hand on, or waits for the checkpoint itself.
quiet_turns = 20

# The feeds of the runs in progress, by run.
feeds = {}


class Feed:
    """The events of a run on their way from the graph to Redis."""

    def __init__(self, run_id):
        self.run_id = run_id
        self.task = asyncio.current_task()
        self.source = None
        self.queue = None
        self.count = 0
        self.is_broken = False
        self.written = asyncio.Event()
        self.written.set()

    async def settle(self):
        """Waits until the events that the graph has sent so far are written."""
        sent = None if self.queue is None else self.queue.sent
        quiet = 0
        while quiet < quiet_turns:
            if self.is_broken or self.is_handed_over():
                raise RuntimeError(f"run {self.run_id} continues elsewhere: its events are not written")
            if sent is not None and self.queue.written >= sent:
                return
            count = self.count
            if self.written.is_set():
                await asyncio.sleep(0)
            else:
                await self.written.wait()
            quiet = quiet + 1 if self.written.is_set() and self.count == count else 0

    def is_handed_over(self):
        from aegra_api.services.run_executor import _lease_loss_cancellations, _shutdown_cancellations

        return self.task.cancelling() > 0 and self.run_id in _lease_loss_cancellations | _shutdown_cancellations

    async def close(self):
        """Ends the graph. Aegra leaves it running when an event cannot be written."""
        self.written.set()
        if self.source is not None:
            # The error of the run counts, and not one of its cleanup.
            with contextlib.suppress(Exception):
                await self.source.aclose()


def keep_feed(original):
    async def stream_run(job, *given):
        run_id = job.identity.run_id
        feed = feeds[run_id] = Feed(run_id)
        try:
            return await original(job, *given)
        except Exception:
            feed.is_broken = True
            raise
        finally:
            await feed.close()
            feeds.pop(run_id)

    return stream_run


def watch(original):
    async def events(*, config, **named):
        feed = feeds[config["configurable"]["run_id"]]
        feed.source = original(config=config, **named)
        async for event in feed.source:
            feed.count += 1
            feed.written.clear()
            yield event
            feed.written.set()

    return events


def counted(original):
    """The queue between a graph and the loop that writes its events. The loop takes the next event when it has written the last one."""

    class CountedQueue(original):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.sent = self.taken = self.written = 0
            # Graphs within the run, and `astream_events`, have queues in tasks of their own.
            task = asyncio.current_task()
            feed = next((feed for feed in feeds.values() if feed.task is task and feed.queue is None), None)
            if feed is not None:
                feed.queue = self

        def put_nowait(self, event):
            super().put_nowait(event)
            self.sent += 1

        def get_nowait(self):
            self.written = self.taken
            event = super().get_nowait()
            self.taken += 1
            return event

    return CountedQueue


def events_first(original):
    @functools.wraps(original)
    async def write(self, config, *given, **named):
        feed = feeds.get(config["configurable"].get("run_id"))
        if feed is not None:
            await feed.settle()
        return await original(self, config, *given, **named)

    return write
