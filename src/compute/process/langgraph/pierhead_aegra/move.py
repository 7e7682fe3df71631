"""Copies the state of the server in memory into the tables of Aegra, when a deployment changes its engine."""

import re
from uuid import UUID

import psycopg
from aegra_api.models.auth import User
from aegra_api.models.run_job import RunBehavior, RunExecution, RunIdentity, RunJob
from aegra_api.settings import settings
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, JsonPlusSerializer
from psycopg.types.json import Jsonb

from . import memory_files

kinds = ("assistants", "threads", "runs", "checkpoints", "writes", "items", "crons", "kept")

serde = JsonPlusSerializer()


def move(state_dir, has_auth):
    """Copies the files once for each content of them, in one transaction. A thread is copied whole or not at all: if the database has
    it and the files went on, it is copied again, unless the database went on, too. The files stay as they are.

    Returns the counts; None when there are no files or they were copied before. Raises an error when the database does not
    have as many rows as the files afterwards. Nothing is copied then."""
    directory = f"{state_dir}/{memory_files.directory_name}"
    digest = memory_files.digest_of(directory)
    if digest is None:
        return None
    with memory_files.unused(state_dir), psycopg.connect(settings.db.database_url_sync) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS pierhead_moves (digest text PRIMARY KEY, counts jsonb, moved_at timestamptz DEFAULT now())")
        if connection.execute("SELECT FROM pierhead_moves WHERE digest = %s", [digest]).fetchone() is not None:
            return None
        counts = Move(connection, memory_files.read(directory), has_auth).all()
        connection.execute("INSERT INTO pierhead_moves (digest, counts) VALUES (%s, %s)", [digest, Jsonb(counts)])
        return counts


class Move:
    def __init__(self, connection, state, has_auth):
        self.cursor = connection.cursor()
        self.state = state
        self.has_auth = has_auth
        self.counts = dict.fromkeys(kinds, 0)
        self.assistants = {}

    def all(self):
        of_thread = {}
        for run in self.state.rows.get("runs", ()):
            of_thread.setdefault(str(run["thread_id"]), []).append(run)
        for assistant in self.state.rows.get("assistants", ()):
            self.copy_assistant(assistant)
        self.assistants = dict(self.cursor.execute("SELECT assistant_id, graph_id FROM assistant").fetchall())
        for thread in self.state.rows.get("threads", ()):
            self.copy_thread(thread, of_thread.get(str(thread["thread_id"]), []))
        for namespace, items in self.state.items.items():
            for item in items.values():
                self.copy_item(namespace, item)
        for cron in self.state.rows.get("crons", ()):
            self.copy_cron(cron)
        return self.counts

    def add(self, table, row, then="ON CONFLICT DO NOTHING"):
        names = ", ".join(row)
        values = [Jsonb(plain(value)) if isinstance(value, (dict, list)) else value for value in row.values()]
        self.cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(row))}) {then}", values)
        return self.cursor.rowcount

    def copy_assistant(self, one):
        metadata = one.get("metadata") or {}
        if metadata.get("created_by") == "system":
            return  # Aegra has made its own, with the same id.
        assistant_id = str(one["assistant_id"])
        row = {
            "assistant_id": assistant_id,
            **definition_of(one),
            "user_id": self.owner_of(metadata),
            "version": one.get("version") or 1,
            "created_at": one["created_at"],
            "updated_at": one["updated_at"],
        }
        changed = ", ".join(f"{name} = excluded.{name}" for name in row if name not in ("assistant_id", "user_id", "created_at"))
        copied = self.add(
            "assistant",
            row,
            f"""ON CONFLICT (assistant_id) DO UPDATE SET {changed}
                 WHERE excluded.version > assistant.version AND excluded.updated_at > assistant.updated_at""",
        )
        if copied == 0:
            return
        self.counts["assistants"] += 1
        for version in self.state.rows.get("assistant_versions", ()):
            if version["assistant_id"] == one["assistant_id"]:
                numbered = {"version": version["version"], "created_at": version["created_at"]}
                self.add("assistant_versions", {"assistant_id": assistant_id, **definition_of(version), **numbered})

    def copy_thread(self, thread, runs):
        thread_id = str(thread["thread_id"])
        namespaces = self.state.storage.get(thread_id, {})
        in_files = {(str(run["run_id"]), None) for run in runs}
        in_files |= {(namespace, checkpoint) for namespace, all_of in namespaces.items() for checkpoint in all_of}
        if self.cursor.execute("SELECT FROM thread WHERE thread_id = %s FOR UPDATE", [thread_id]).fetchone() is not None:
            in_database = self.known(thread_id)
            if not in_database < in_files:
                self.counts["kept"] += not in_files <= in_database
                return
            for table in ("thread", "checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                self.cursor.execute(f"DELETE FROM {table} WHERE thread_id = %s", [thread_id])
        is_active = any(run["status"] in ("pending", "running") for run in runs)
        status = thread.get("status") or "idle"
        self.add(
            "thread",
            {
                "thread_id": thread_id,
                "status": "busy" if is_active else "idle" if status == "busy" else status,
                "metadata_json": thread.get("metadata") or {},
                "user_id": self.owner_of(thread.get("metadata") or {}, runs),
                "created_at": thread["created_at"],
                "updated_at": thread["updated_at"],
            },
        )
        begun = self.copy_checkpoints(thread_id, namespaces)
        for run in runs:
            self.copy_run(run, str(run["run_id"]) in begun)
        writes = sum(len(self.writes_of(thread_id, namespace, one)) for namespace, all_of in namespaces.items() for one in all_of)
        copied = {"runs": len(runs), "checkpoints": len(in_files) - len(runs), "writes": writes}
        self.expect(thread_id, copied)
        for kind, count in {**copied, "threads": 1}.items():
            self.counts[kind] += count

    def known(self, thread_id):
        found = self.cursor.execute(
            "SELECT run_id, NULL FROM runs WHERE thread_id = %s UNION ALL SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = %s",
            [thread_id, thread_id],
        )
        return set(found.fetchall())

    def expect(self, thread_id, wanted):
        for kind, count in wanted.items():
            table = {"runs": "runs", "checkpoints": "checkpoints", "writes": "checkpoint_writes"}[kind]
            (found,) = self.cursor.execute(f"SELECT count(*) FROM {table} WHERE thread_id = %s", [thread_id]).fetchone()
            if found != count:
                raise RuntimeError(f"thread {thread_id} has {count} {kind} in the files, but {found} were copied: nothing is copied")

    def copy_checkpoints(self, thread_id, namespaces):
        """Returns the runs that have stored a checkpoint. Values keep their bytes: both checkpointers have the same format."""
        begun = set()
        for (thread, namespace, channel, version), value in self.blobs_of(thread_id):
            self.copy_blob(thread, namespace, channel, version, value)
        for namespace, all_of in namespaces.items():
            for checkpoint_id, (stored, stored_metadata, parent) in all_of.items():
                checkpoint, metadata = serde.loads_typed(stored), serde.loads_typed(stored_metadata)
                metadata.pop("writes", None)
                # Old versions keep what tasks send here. It is among the writes, too.
                checkpoint.pop("pending_sends", None)
                begun.add(str(metadata.get("run_id")))
                versions = checkpoint.get("channel_versions", {})
                # Old versions of the checkpointer kept the values with the checkpoint.
                for channel, value in (checkpoint.pop("channel_values", None) or {}).items():
                    if channel in versions:
                        self.copy_blob(thread_id, namespace, channel, versions[channel], serde.dumps_typed(value))
                snapshots = {
                    channel: True
                    for channel, version in versions.items()
                    if is_snapshot(self.state.blobs.get((thread_id, namespace, channel, version)))
                }
                self.add(
                    "checkpoints",
                    {
                        "thread_id": thread_id,
                        "checkpoint_ns": namespace,
                        "checkpoint_id": checkpoint_id,
                        "parent_checkpoint_id": parent,
                        "checkpoint": {**checkpoint, "channel_values": snapshots},
                        "metadata": metadata,
                    },
                )
                for (task, index), (_, channel, value, *path) in self.writes_of(thread_id, namespace, checkpoint_id).items():
                    self.cursor.execute(
                        """INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
                           VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)""",
                        [thread_id, namespace, checkpoint_id, task, *(path or [""]), index, channel, *readable(thread_id, channel, value)],
                    )
        return begun

    def writes_of(self, thread_id, namespace, checkpoint_id):
        return self.state.writes.get((thread_id, namespace, checkpoint_id), {})

    def blobs_of(self, thread_id):
        if not hasattr(self, "blobs"):
            self.blobs = {}
            for key, value in self.state.blobs.items():
                self.blobs.setdefault(key[0], []).append((key, value))
        return self.blobs.get(thread_id, ())

    def copy_blob(self, thread_id, namespace, channel, version, value):
        self.cursor.execute(
            """INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob) VALUES (%s, %s, %s, %s, %s, %s)
               ON CONFLICT DO NOTHING""",
            [thread_id, namespace, channel, str(version), *readable(thread_id, channel, value)],
        )

    def copy_run(self, run, has_begun):
        """A run that was in progress goes on at its last checkpoint, and one that waited begins."""
        run_id, thread_id, assistant_id = (str(run[name]) for name in ("run_id", "thread_id", "assistant_id"))
        kwargs = run.get("kwargs") or {}
        config = kwargs.get("config") or {}
        configurable = config.get("configurable") or {}
        own = {name: value for name, value in configurable.items() if is_own(name) and not (has_begun and name.startswith("checkpoint_"))}
        user = self.owner_of(run.get("metadata") or {}, [run])
        job = RunJob(
            identity=RunIdentity(run_id=run_id, thread_id=thread_id, graph_id=self.assistants.get(assistant_id) or configurable.get("graph_id", "")),
            user=User(identity=user, permissions=list(configurable.get("langgraph_auth_permissions") or [])),
            execution=RunExecution(
                input_data=plain(kwargs.get("input")) if isinstance(kwargs.get("input"), dict) else None,
                config=plain({**config, "configurable": own}),
                context=plain(kwargs.get("context") or {}),
                stream_mode=kwargs.get("stream_mode"),
                command=plain(kwargs.get("command")),
                durability=kwargs.get("durability"),
            ),
            behavior=RunBehavior(
                interrupt_before=kwargs.get("interrupt_before"),
                interrupt_after=kwargs.get("interrupt_after"),
                multitask_strategy=run.get("multitask_strategy"),
                subgraphs=bool(kwargs.get("subgraphs")),
            ),
            run_metadata=plain(run.get("metadata") or {}),
        )
        self.add(
            "runs",
            {
                "run_id": run_id,
                "thread_id": thread_id,
                "assistant_id": assistant_id if assistant_id in self.assistants else None,
                "status": "pending" if run["status"] == "running" else run["status"],
                "input": job.execution.input_data,
                "config": job.execution.config,
                "context": job.execution.context,
                "user_id": user,
                "created_at": run["created_at"],
                "updated_at": run["updated_at"],
                "execution_params": job.to_execution_params(),
            },
        )

    def copy_item(self, namespace, item):
        vectors = self.state.vectors.get(namespace, {}).get(item.key, {})
        row = {
            "prefix": clean(".".join(namespace)),
            "key": clean(item.key),
            "value": item.value,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }
        copied = self.add(
            "store",
            row,
            """ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
                WHERE excluded.updated_at > store.updated_at""",
        )
        self.counts["items"] += copied
        if copied == 0 or not vectors or self.cursor.execute("SELECT to_regclass('store_vectors')").fetchone()[0] is None:
            return
        for path, vector in vectors.items():
            self.cursor.execute(
                """INSERT INTO store_vectors (prefix, key, field_name, embedding) VALUES (%s, %s, %s, %s)
                   ON CONFLICT (prefix, key, field_name) DO UPDATE SET embedding = excluded.embedding""",
                [row["prefix"], row["key"], path, str([float(number) for number in vector])],
            )

    def copy_cron(self, cron):
        """Webhooks stay behind: Aegra would refuse the runs."""
        payload = cron.get("payload") or {}
        known = (
            *("input", "config", "context", "interrupt_before", "interrupt_after", "multitask_strategy", "stream_mode"),
            *("stream_subgraphs", "durability", "checkpoint_during"),
        )
        fields = {name: payload[name] for name in known if payload.get(name) is not None}
        assistant_id = str(cron["assistant_id"])
        if assistant_id not in self.assistants:
            return
        self.counts["crons"] += self.add(
            "crons",
            {
                "cron_id": str(cron["cron_id"]),
                "assistant_id": assistant_id,
                "thread_id": None if cron.get("thread_id") is None else str(cron["thread_id"]),
                "user_id": self.owner_of(cron.get("metadata") or {}) if cron.get("user_id") is None or not self.has_auth else str(cron["user_id"]),
                "schedule": cron["schedule"],
                "payload": {**fields, **({"timezone": cron["timezone"]} if cron.get("timezone") else {})},
                "metadata": cron.get("metadata") or {},
                "on_run_completed": cron.get("on_run_completed"),
                "enabled": cron.get("enabled") is not False,
                "end_time": cron.get("end_time"),
                "next_run_date": cron.get("next_run_date"),
                "created_at": cron["created_at"],
                "updated_at": cron["updated_at"],
            },
        )

    def owner_of(self, metadata, runs=()):
        """Aegra shows a row to its owner. The server in memory keeps none: the user of a run, or what a handler of the agent's own auth
        writes into the metadata, as LangGraph documents it."""
        if not self.has_auth:
            return "anonymous"
        configs = [(run.get("kwargs") or {}).get("config") or {} for run in runs]
        users = [(config.get("configurable") or {}).get("langgraph_auth_user_id") for config in configs]
        return str(next((user for user in [*users, metadata.get("owner"), metadata.get("user_id")] if user), ""))


def definition_of(row):
    return {
        "graph_id": row["graph_id"],
        "name": row.get("name") or row["graph_id"],
        "description": row.get("description"),
        "config": row.get("config") or {},
        "context": row.get("context") or {},
        "metadata": row.get("metadata") or {},
    }


def is_own(name):
    """Whether the caller has set this, and not the server."""
    return not name.startswith(("__", "langgraph_")) and name not in ("thread_id", "run_id", "graph_id", "assistant_id", "user_id")


def readable(thread_id, channel, value):
    kind, data = value
    if kind == "pickle":
        raise RuntimeError(
            f"channel {channel} of thread {thread_id} has a value that only the server in memory can store: nothing is copied. Delete the thread, or stay on engine memory"
        )
    return kind, None if kind == "empty" else data


def is_snapshot(value):
    """Whether this is the snapshot of a `DeltaChannel`, by the head of its MessagePack."""
    if value is None or value[0] != "msgpack" or not value[1]:
        return False
    head = value[1][0]
    at = 1 if 0xD4 <= head <= 0xD8 else {0xC7: 2, 0xC8: 3, 0xC9: 5}.get(head)
    return at is not None and value[1][at] == EXT_DELTA_SNAPSHOT


def clean(text):
    """PostgreSQL stores neither NUL nor halves of surrogate pairs."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)


def plain(value):
    """Returns a value as JSON has it."""
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {clean(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if isinstance(value, memory_files.Unknown):
        return None
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json"))
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise RuntimeError(f"a value of type {type(value).__name__} cannot be stored as JSON: nothing is copied")
