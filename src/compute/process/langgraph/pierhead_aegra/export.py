"""Writes the state of Aegra as the files of the server in memory, with which a deployment goes on without Aegra.

    DATABASE_URI=postgresql://... python export.py DIRECTORY [SCHEMA]

DIRECTORY must have no state yet. Prints the counts.
"""

import json
import os
import sys
from collections import defaultdict
from uuid import UUID

import psycopg
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import Item
from psycopg.rows import dict_row

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pierhead_aegra import memory_files  # noqa: E402

serde = JsonPlusSerializer()


def export(uri, schema, directory):
    with psycopg.connect(uri, row_factory=dict_row) as connection:
        # Everything as it is at one moment.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT set_config('search_path', %s, true)", [f"{schema},public"])
        state = memory_files.empty()
        read = lambda table, order: connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
        assistants = {one["assistant_id"]: one for one in read("assistant", "created_at")}
        own = {key for key, one in assistants.items() if one["user_id"] != "system"}
        state.rows["assistants"] = [definition_of(assistants[key]) for key in assistants if key in own]
        state.rows["assistant_versions"] = [definition_of(one) for one in read("assistant_versions", "version") if one["assistant_id"] in own]
        state.rows["threads"] = [thread_of(one) for one in read("thread", "created_at")]
        state.rows["runs"] = [run_of(one) for one in read("runs", "created_at")]
        state.rows["crons"] = [cron_of(one) for one in read("crons", "created_at")]
        for one in read("checkpoint_blobs", "thread_id"):
            key = (one["thread_id"], one["checkpoint_ns"], one["channel"], one["version"])
            state.blobs[key] = (one["type"], one["blob"] or b"")
        for one in read("checkpoints", "checkpoint_id"):
            add_checkpoint(state, one)
        for one in read("checkpoint_writes", "idx"):
            key = (one["thread_id"], one["checkpoint_ns"], one["checkpoint_id"])
            value = (one["task_id"], one["channel"], (one["type"], one["blob"]), one["task_path"])
            state.writes[key][(one["task_id"], one["idx"])] = value
        for one in read("store", "created_at"):
            namespace = tuple(one["prefix"].split("."))
            times = {name: one[name] for name in ("created_at", "updated_at")}
            state.items[namespace][one["key"]] = Item(value=one["value"], key=one["key"], namespace=namespace, **times)
    storage = {thread: defaultdict(dict, namespaces) for thread, namespaces in state.storage.items()}
    plain = state._replace(rows=dict(state.rows), storage=storage, writes=dict(state.writes), items=dict(state.items))
    memory_files.write(os.path.join(directory, memory_files.directory_name), plain)
    return {
        **{kind: len(state.rows[kind]) for kind in ("assistants", "threads", "runs", "crons")},
        "checkpoints": sum(len(all_of) for namespaces in state.storage.values() for all_of in namespaces.values()),
        "writes": sum(map(len, state.writes.values())),
        "items": sum(map(len, state.items.values())),
    }


def add_checkpoint(state, one):
    thread, namespace, checkpoint = one["thread_id"], one["checkpoint_ns"], one["checkpoint"]
    # PostgreSQL keeps simple values with the checkpoint. A value with a blob is only a mark.
    for channel, value in (checkpoint.pop("channel_values", None) or {}).items():
        version = checkpoint["channel_versions"].get(channel)
        if version is not None:
            state.blobs.setdefault((thread, namespace, channel, version), serde.dumps_typed(value))
    stored = (serde.dumps_typed(checkpoint), serde.dumps_typed(one["metadata"]), one["parent_checkpoint_id"])
    state.storage[thread][namespace][one["checkpoint_id"]] = stored


def definition_of(row):
    kept = {name: value for name, value in row.items() if name != "user_id"}
    return {**kept, "assistant_id": UUID(row["assistant_id"]), **{name: row[name] or {} for name in ("config", "context", "metadata")}}


def thread_of(row):
    return {
        "thread_id": UUID(row["thread_id"]),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "state_updated_at": row["updated_at"],
        "metadata": row["metadata_json"] or {},
        "status": row["status"],
        "config": {},
        "values": None,
    }


def run_of(row):
    params = row["execution_params"] or {}
    execution, behavior, user = (params.get(name) or {} for name in ("execution", "behavior", "user"))
    config = row["config"] or {}
    ids = {"thread_id": row["thread_id"], "run_id": row["run_id"], "graph_id": params.get("graph_id"), "assistant_id": row["assistant_id"]}
    auth = {"langgraph_auth_user": None, "langgraph_auth_user_id": row["user_id"], "langgraph_auth_permissions": user.get("permissions") or []}
    return {
        "run_id": UUID(row["run_id"]),
        "thread_id": UUID(row["thread_id"]),
        "assistant_id": None if row["assistant_id"] is None else UUID(row["assistant_id"]),
        "metadata": params.get("run_metadata") or {},
        "status": row["status"],
        "kwargs": {
            **{name: execution.get(name) for name in ("command", "stream_mode", "durability")},
            **{name: behavior.get(name) for name in ("interrupt_before", "interrupt_after")},
            "input": row["input"],
            "config": {**config, "configurable": {**(config.get("configurable") or {}), **ids, **auth}},
            "context": row["context"] or {},
            "subgraphs": bool(behavior.get("subgraphs")),
            "webhook": None,
            "feedback_keys": None,
            "temporary": False,
            "resumable": False,
            "checkpoint_during": True,
        },
        "multitask_strategy": behavior.get("multitask_strategy") or "enqueue",
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }


def cron_of(row):
    kept = ("user_id", "schedule", "on_run_completed", "enabled", "end_time", "next_run_date", "metadata", "created_at", "updated_at")
    payload = dict(row["payload"] or {})
    return {
        **{name: row[name] for name in kept},
        "cron_id": UUID(row["cron_id"]),
        "assistant_id": UUID(row["assistant_id"]),
        "thread_id": None if row["thread_id"] is None else UUID(row["thread_id"]),
        "timezone": payload.pop("timezone", None),
        "payload": {"assistant_id": row["assistant_id"], **payload},
    }


if __name__ == "__main__":
    try:
        if len(sys.argv) < 2 or not os.environ.get("DATABASE_URI"):
            raise RuntimeError("give the directory for the files, and the address of the database in DATABASE_URI")
        print(json.dumps(export(os.environ["DATABASE_URI"], *(sys.argv[2:3] or ["aegra"]), sys.argv[1])))
    except Exception as failure:
        sys.exit(f"{type(failure).__name__}: {failure}")
