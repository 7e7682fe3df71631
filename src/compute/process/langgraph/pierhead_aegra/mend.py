"""Replaces functions of Aegra. Each replacement gets the original function, and says why it is needed."""

import secrets


def mend(schema):
    """The order matters: modules of Aegra that are imported later take the functions that are there then."""
    from aegra_api.core import auth_handlers, auth_middleware
    from aegra_api.core import database as core

    from . import auth, database

    database.schema = schema
    replace(auth_middleware.LangGraphAuthBackend, "authenticate", auth.authenticate)
    replace(auth_middleware.LangGraphAuthBackend, "_load_auth_instance", auth.load_auth_instance)
    replace(auth_handlers, "handle_event", auth.handle_event)
    replace(core, "create_async_engine", database.create_engine)
    replace(core, "load_store_config", database.load_store_config)
    replace(core.DatabaseManager, "initialize", database.initialize_database)

    from aegra_api.models import RunCreate
    from aegra_api.services import run_status

    # Fields that Aegra does not know are refused instead of ignored.
    RunCreate.model_config["extra"] = "allow"
    RunCreate.model_rebuild(force=True)

    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.pregel import main as pregel
    from langgraph.store.postgres.aio import AsyncPostgresStore

    from . import assistants, ends, feeds, leases, outages, runs

    for name in ("aput", "aput_writes"):
        replace(AsyncPostgresSaver, name, feeds.events_first)
    replace(pregel, "AsyncQueue", feeds.counted)
    for name in ("aget_tuple", "aget_delta_channel_history", "aput", "aput_writes"):
        replace(AsyncPostgresSaver, name, outages.noting_outages)
    replace(AsyncPostgresStore, "abatch", outages.noting_outages)
    replace(run_status, "start_run", outages.noting_outages)
    replace(run_status, "finalize_run", ends.finalize_run)
    replace(run_status, "interrupt_unowned_run", runs.interrupt_unowned_run)

    from aegra_api.services import langgraph_service, lease_reaper, redis_broker, run_executor, run_preparation, streaming_service, worker_executor

    from . import streams

    replace(redis_broker.RedisRunBroker, "aiter", streams.aiter)
    replace(redis_broker.RedisRunBroker, "put", outages.noting_outages)
    replace(redis_broker.RedisBrokerManager, "allocate_event_id", outages.noting_outages)
    replace(langgraph_service.LangGraphService, "initialize", database.initialize_graphs)
    replace(run_preparation, "_prepare_run", runs.prepare_run)
    for name in ("stream_graph_events", "stream_native_v3_events"):
        replace(run_executor, name, feeds.watch)
    for name in ("_stream_legacy", "_stream_native_v2"):
        replace(run_executor, name, feeds.keep_feed)
    replace(run_executor, "_signal_run_done", ends.signal_run_done)
    replace(worker_executor, "_is_run_terminal", outages.false_in_outages)
    replace(worker_executor, "_acquire_and_load", runs.acquire)
    replace(worker_executor, "_release_lease", runs.release)
    replace(worker_executor, "_requeue_drained_runs", runs.requeue)
    replace(worker_executor, "_heartbeat_loop", leases.hold_lease)
    replace(worker_executor.WorkerExecutor, "submit", runs.submit)
    replace(worker_executor.WorkerExecutor, "wait_for_completion", ends.wait_for_completion)
    replace(worker_executor.WorkerExecutor, "_poll_postgres", runs.poll)
    replace(lease_reaper.LeaseReaper, "_recover_crashed_runs", ends.recover)
    replace(lease_reaper.LeaseReaper, "_missing_from_queue", runs.missing_from_queue)
    # A container that starts again has the same name and process id.
    run_preparation.executor._instance_id += f"-{secrets.token_hex(4)}"

    from aegra_api.api import store
    from aegra_api.services.assistant_service import AssistantService

    replace(AssistantService, "_resolve_create_conflict", assistants.resolve_conflict)
    replace(store, "apply_namespace_scoping", keep_namespace)

    from . import answers

    replace(AssistantService, "_read_owned_assistant", answers.read_assistant)
    replace(streaming_service.StreamingService, "signal_run_error", answers.signal_error)
    answers.mend_routes()


def replace(owner, name, make):
    original = getattr(owner, name)
    made = make(original)
    is_static = isinstance(owner, type) and isinstance(owner.__dict__[name], staticmethod)
    setattr(owner, name, staticmethod(made) if is_static else made)


def keep_namespace(_original):
    """The store of the API is the one that graphs write to. Handlers of the agent's own auth decide who may read what."""
    return lambda namespace, _user, **_: namespace
