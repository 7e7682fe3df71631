"""The connections and tables of a deployment."""

import asyncio
import contextlib
import functools
import importlib.util
import os

import psycopg
import structlog
from aegra_api.core.auth_middleware import get_auth_instance
from aegra_api.core.orm import get_session_maker
from aegra_api.settings import settings
from sqlalchemy import text

from . import start
from .leases import leases

# How many connections a replica opens at most, besides the one that renews leases, and which part of the server's limit they may be.
connections_max = 10
connections_share = 8

# Of the tables of this deployment.
schema = "aegra"


def create_engine(original):
    """asyncpg gets the schema as a setting of its sessions."""
    return lambda url, **options: original(url, **{**options, "connect_args": {**options["connect_args"], **schema_argument()}})


def schema_argument():
    return {"server_settings": {"search_path": f"{schema},public"}}


def load_store_config(original):
    """`store.index.embed` may name a function in a file, which the library does not know."""

    def load():
        config = original()
        index = (config or {}).get("index") or {}
        file, _, name = str(index.get("embed", "")).rpartition(":")
        if not file.endswith(".py"):
            return config
        spec = importlib.util.spec_from_file_location("pierhead_embed", os.path.abspath(file))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return {**config, "index": {**index, "embed": getattr(module, name)}}

    return load


try_lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"


@contextlib.asynccontextmanager
async def one_at_a_time():
    """Two replicas that start on an empty database would both create its tables."""
    async with await psycopg.AsyncConnection.connect(settings.db.database_url_sync, autocommit=True) as connection:
        # A session that waits for the lock would hold up the indexes that the migrations build concurrently.
        while not (await (await connection.execute(try_lock, [f"pierhead {schema}"])).fetchone())[0]:
            await asyncio.sleep(0.2)
        yield connection


def initialize_database(original):
    async def initialize(self):
        from aegra_api.config import load_store_config

        async with one_at_a_time() as connection:
            await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            if (load_store_config() or {}).get("index") is not None:
                # Deployments share the extensions of a database.
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            await fit_pools(connection)
            await asyncio.to_thread(migrate)
            await connection.execute(
                "CREATE UNIQUE INDEX IF NOT EXISTS one_running_run_per_thread ON runs (thread_id) WHERE status = 'running'"
            )
            # A user may have several assistants with the same graph and configuration, as on other servers.
            await connection.execute("DROP INDEX IF EXISTS idx_assistant_user_graph_config")
            await original(self)
        leases.start(asyncio.get_running_loop())

    return noting_failure(initialize)


async def fit_pools(connection):
    """During a rollout, the replicas of two revisions share the connections that the server allows."""
    found = await connection.execute(
        """SELECT least(nullif(rolconnlimit, -1), nullif(datconnlimit, -1), current_setting('max_connections')::int)
             FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()"""
    )
    (limit,) = await found.fetchone()
    size = max(4, min(connections_max, limit // connections_share)) // 2
    settings.pool.SQLALCHEMY_POOL_SIZE, settings.pool.SQLALCHEMY_MAX_OVERFLOW = size, 0
    settings.pool.LANGGRAPH_MIN_POOL_SIZE, settings.pool.LANGGRAPH_MAX_POOL_SIZE = 1, size


def migrate():
    """Brings the tables up to date. A replica of an earlier revision leaves the tables of a later one as they are."""
    import sqlalchemy.ext.asyncio
    from aegra_api.core import migrations
    from alembic.script import ScriptDirectory

    known = {one.revision for one in ScriptDirectory.from_config(migrations.get_alembic_config()).walk_revisions()}
    with psycopg.connect(settings.db.database_url_sync, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('alembic_version')").fetchone()[0] is not None:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            if found is not None and found[0] not in known:
                return
    original = sqlalchemy.ext.asyncio.async_engine_from_config
    sqlalchemy.ext.asyncio.async_engine_from_config = functools.partial(original, connect_args=schema_argument())
    try:
        migrations.run_migrations_if_needed()
    finally:
        sqlalchemy.ext.asyncio.async_engine_from_config = original


def initialize_graphs(original):
    async def initialize(self):
        from . import move

        async with one_at_a_time():
            # Creates the assistants to which the copied runs refer.
            await original(self)
            if start.state_dir is not None:
                counts = await asyncio.to_thread(move.move, start.state_dir, get_auth_instance() is not None)
                if counts is not None:
                    structlog.get_logger().info("state of the server in memory copied", **counts)

    return noting_failure(initialize)


def noting_failure(initialize):
    @functools.wraps(initialize)
    async def wrapped(self):
        try:
            await initialize(self)
        except Exception as error:
            start.failure = error
            raise

    return wrapped


def sessions():
    return get_session_maker()()


async def execute(session, statement, **values):
    return await session.execute(text(statement), values)

