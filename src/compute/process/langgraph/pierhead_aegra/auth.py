"""The agent's own auth: handlers are called as LangGraph documents it."""

import contextvars
import functools
import inspect

from starlette.requests import Request

connection = contextvars.ContextVar("connection")


def handle_event(original):
    """Documented handlers write into `value["metadata"]`, which is None for a request without metadata."""

    async def handle(ctx, value):
        if value.get("metadata", ...) is None:
            value["metadata"] = {}
        given = next((name for name in ("namespace", "namespace_prefix", "prefix") if name in value), None)
        if ctx.resource != "store" or given is None:
            return await original(ctx, value)
        # Handlers limit a user to namespaces by changing `value["namespace"]`, or refuse the request. What they return is for threads.
        value["namespace"] = asked = tuple(value[given] or ())
        await original(ctx, value)
        return None if tuple(value["namespace"]) == asked else {given: list(value["namespace"])}

    return handle


def authenticate(original):
    @functools.wraps(original)
    async def wrapped(self, conn):
        connection.set(conn)
        return await original(self, conn)

    return wrapped


def load_auth_instance(original):
    @functools.wraps(original)
    def load(self):
        auth = original(self)
        if auth is not None and auth._authenticate_handler is not None:
            auth._authenticate_handler = with_names(auth._authenticate_handler)
        return auth

    return load


# What a handler of `@auth.authenticate` may ask for, by the name of its parameter.
parameters = {
    "authorization": lambda conn: conn.headers.get("authorization"),
    "headers": lambda conn: dict(conn.scope["headers"]),
    "method": lambda conn: conn.scope["method"],
    "path": lambda conn: conn.scope["path"],
    "path_params": lambda conn: conn.scope.get("path_params") or {},
    "query_params": lambda conn: dict(conn.query_params),
    "request": lambda conn: Request(conn.scope),
    "scope": lambda conn: conn.scope,
}


def with_names(handler):
    """Aegra passes the headers to any handler."""
    names = inspect.signature(handler).parameters
    unknown = [name for name, one in names.items() if name not in parameters and one.default is inspect.Parameter.empty]
    if unknown:
        raise ValueError(f"the handler of @auth.authenticate asks for {', '.join(unknown)}; known are {', '.join(parameters)}")

    async def call(_headers):
        conn = connection.get()
        found = handler(**{name: parameters[name](conn) for name in names if name in parameters})
        user = await found if inspect.isawaitable(found) else found
        if isinstance(user, dict):
            return user
        if isinstance(user, str):
            return {"identity": user}
        known = ("identity", "display_name", "is_authenticated", "permissions")
        return {name: getattr(user, name) for name in known if hasattr(user, name)}

    return call
