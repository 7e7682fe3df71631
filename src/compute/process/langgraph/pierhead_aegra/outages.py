"""Tells an outage of PostgreSQL or Redis from an error of the agent's graph."""

import functools

import asyncpg
import psycopg
from aegra_api.core.database import db_manager
from redis import RedisError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

# SQLSTATE classes: lost connections, conflicts of transactions, lack of resources, shutdowns and crashes, system errors.
outage_states = ("08", "40", "53", "57", "58")


def noting_outages(original):
    """Marks the outages that a function of the server raises. The agent may have connections of its own: their errors are final."""

    @functools.wraps(original)
    async def call(*given, **named):
        try:
            return await original(*given, **named)
        except Exception as error:
            # An agent may have checkpointers and stores of its own, too.
            is_ours = getattr(given[0], "conn", db_manager.lg_pool) is db_manager.lg_pool
            if is_ours and is_outage(error):
                error.pierhead_outage = True
            raise

    return call


def false_in_outages(original):
    """Returns False while PostgreSQL is away, so that callers that wait for the end of a run ask again."""

    @functools.wraps(original)
    async def call(run_id):
        try:
            return await original(run_id)
        except Exception as error:
            if not is_outage(error):
                raise
            return False

    return call


def is_noted(error):
    return getattr(error, "pierhead_outage", False)


def is_outage(error):
    """Whether PostgreSQL or Redis was away. Data that they refuse is not an outage."""
    if isinstance(error, (OSError, RedisError, PoolTimeoutError)):
        return True
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith(outage_states)
    if isinstance(error, psycopg.Error):
        # A connection that broke may have no better class.
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or type(error) is psycopg.DatabaseError
    source = error.__cause__ if error is not None else None
    return isinstance(source, asyncpg.InterfaceError) and not isinstance(source, ValueError)
