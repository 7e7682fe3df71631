"""Starts Aegra with the settings of one deployment, and ends it."""

import asyncio
import json
import logging
import os
import time
import urllib.parse

# A replica that dies loses its runs after a lease. Another one then continues them at its next check.
lease_s = 15
renew_s = 4
reap_s = 5

# Runs may end for this long when a replica stops. Other replicas continue the rest.
runs_grace_s = 10

# Why Aegra could not start. It only logs it.
failure = None

# Where the server in memory kept its state, if the deployment ran on it before.
state_dir = None


# Counts the tokens of this replica's models.
tokens = None


def prepare(options, counted):
    """Imports Aegra with options of langgraph-python-launch.ts. Returns its application and its version."""
    global state_dir, tokens
    state_dir = options["stateDir"]
    tokens = counted
    config = config_of(options)
    file = os.path.join(os.path.dirname(options["viewDir"]), "aegra.json")
    with open(file, "w") as opened:
        json.dump(config, opened)
    app = import_app({**os.environ, "AEGRA_CONFIG": file}, options["engineSchema"], options["redisPrefix"])
    from aegra_api import __version__
    from aegra_api.core.auth_middleware import get_auth_instance

    # Aegra only warns, and would serve without authentication.
    if "auth" in config and get_auth_instance() is None:
        raise RuntimeError(f"auth.path names {config['auth'].get('path')}, which could not be loaded: see the lines above")
    return closing_after_errors(app), __version__


def closing_after_errors(app):
    """The HTTP server closes a connection after an error of the application, but does not announce it. The next request on it would fail."""

    async def wrapped(scope, receive, send):
        async def announce(message):
            if message["type"] == "http.response.start" and message["status"] == 500:
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, announce if scope["type"] == "http" else send)

    return wrapped


def import_app(environment, schema, redis_prefix):
    import_settings(environment, schema, redis_prefix)
    from .mend import mend

    mend(schema)
    from aegra_api.main import app

    from .ends import add_routes

    add_routes(app)
    return app


def config_of(options):
    """Returns Aegra's configuration. The entries of langgraph.json are absolute already."""
    given = options["serverEnvironment"]
    config = {key: given.get(f"LANGGRAPH_{key.upper()}") for key in ("auth", "http", "store", "checkpointer")}
    graphs = {}
    for graph_id, graph in json.loads(given["LANGSERVE_GRAPHS"]).items():
        entry = {"path": graph} if isinstance(graph, str) else dict(graph)
        entry["path"] = file_entry(entry["path"], graph_id, os.path.dirname(options["viewDir"]))
        graphs[graph_id] = entry
    return {"graphs": graphs, **{key: json.loads(text) for key, text in config.items() if text is not None}}


def file_entry(entry, graph_id, directory):
    """Aegra loads graphs from files only. A graph of a module gets a file that imports it."""
    module, _, name = entry.rpartition(":")
    if "/" in module or module.endswith(".py"):
        return entry
    file = os.path.join(directory, f"graph-{graph_id.replace('/', '-')}.py")
    with open(file, "w") as opened:
        opened.write(f"from {module} import {name}\n")
    return f"{file}:{name}"


def import_settings(environment, schema, redis_prefix):
    """Aegra reads its settings once. The agent's own variables of the same names, such as DATABASE_URL, must not change them."""
    settings = {
        "AEGRA_CONFIG": environment["AEGRA_CONFIG"],
        "DATABASE_URL": with_schema(environment["DATABASE_URI"], schema),
        "REDIS_URL": environment["REDIS_URI"],
        "REDIS_BROKER_ENABLED": "true",
        # The user of a deployment sees only keys and channels with its prefix.
        "REDIS_CHANNEL_PREFIX": f"{redis_prefix}run:",
        "WORKER_QUEUE_KEY": f"{redis_prefix}jobs",
        "RUN_MIGRATIONS_ON_STARTUP": "false",
        # With 0, workers in other pods execute the runs.
        "WORKER_COUNT": "0" if environment.get("N_JOBS_PER_WORKER") == "0" else "1",
        "LEASE_DURATION_SECONDS": str(lease_s),
        "HEARTBEAT_INTERVAL_SECONDS": str(renew_s),
        "REAPER_INTERVAL_SECONDS": str(reap_s),
        "STUCK_PENDING_THRESHOLD_SECONDS": "10",
        "BLPOP_TIMEOUT_SECONDS": "1",
        "ENV_MODE": "PRODUCTION",
        "LOG_EXCLUDE_PATHS": "/ok,/metrics",
        **dict.fromkeys(("HOST", "PORT", "DEBUG", "AUTH_TYPE", "PROJECT_NAME", "DB_ECHO_LOG")),
    }
    before = {name: os.environ.get(name) for name in settings}
    set_environment(settings)
    try:
        from aegra_api import settings as module
    finally:
        set_environment(before)
    # asyncpg gets the schema in another way. Aegra would warn about it.
    module._LIBPQ_ONLY_PARAMS |= {"options"}
    logging.getLogger(module.__name__).setLevel(logging.ERROR)


def set_environment(variables):
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def with_schema(uri, schema):
    """Deployments may share a database of the user's, so each has a schema of its own."""
    head, _, query = uri.partition("?")
    pairs = [pair for pair in urllib.parse.parse_qsl(query) if pair[0] != "options"]
    pairs.append(("options", f"-csearch_path={schema},public"))
    return f"{head}?{urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote)}"


async def drain(server, timeout_s, hurry):
    """Lets runs end for a while, hands the rest over to other replicas, and then lets clients read their answers, also those of
    runs that another replica continues."""
    from aegra_api.services.executor import executor
    from aegra_api.settings import settings

    end = time.monotonic() + max(timeout_s / 2, timeout_s - 4)
    runs_end = min(end, time.monotonic() + runs_grace_s)
    executor._running = False
    while time.monotonic() < runs_end and not hurry.is_set() and executor._job_tasks:
        await asyncio.sleep(0.1)
    settings.worker.WORKER_DRAIN_TIMEOUT = 0
    await executor.stop()
    while time.monotonic() < end and not hurry.is_set() and server.server_state.tasks:
        await asyncio.sleep(0.1)
    server.config.timeout_graceful_shutdown = 0 if hurry.is_set() else 1
    server.should_exit = True
