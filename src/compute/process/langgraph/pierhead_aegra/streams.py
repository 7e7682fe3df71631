"""The events of a run, for its readers on all replicas."""

import asyncio
import json

from aegra_api.core.redis_manager import redis_manager
from aegra_api.utils.sse_utils import extract_event_sequence
from redis import RedisError

# How often a silent stream asks whether its run has ended, in case that Redis has lost the last event.
silent_s = 3


def aiter(_original):
    """Aegra reads the kept events first and subscribes then, so a reader misses what is published in between or while it reconnects."""

    async def iterate(self):
        last = 0
        while True:
            try:
                async with redis_manager.get_client().pubsub() as channel:
                    await channel.subscribe(self._channel)
                    async for event_id, payload in events(self, channel):
                        if extract_event_sequence(event_id) <= last:
                            continue
                        last = extract_event_sequence(event_id)
                        yield event_id, payload
                    return
            except RedisError:
                await asyncio.sleep(1)

    return iterate


async def events(broker, channel):
    """Yields the kept events and then the new ones, up to the end. The reader sorts out those that it has."""
    from aegra_api.services.redis_broker import _deserialize_payload
    from aegra_api.services.worker_executor import _is_run_terminal

    is_ended = False
    while True:
        for event_id, payload in await broker.replay(None):
            yield event_id, payload
            is_ended = is_ended or is_end(payload)
        if is_ended:
            return
        while (message := await channel.get_message(ignore_subscribe_messages=True, timeout=silent_s)) is not None:
            if message["type"] != "message":
                continue
            data = json.loads(message["data"])
            payload = _deserialize_payload(data["payload"])
            yield data["event_id"], payload
            if is_end(payload):
                return
        is_ended = await _is_run_terminal(broker.run_id)


def is_end(payload):
    return isinstance(payload, tuple) and len(payload) > 0 and payload[0] == "end"
