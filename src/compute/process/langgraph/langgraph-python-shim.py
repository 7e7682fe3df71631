"""Host shim of the open LangGraph server for Python: the main program of one replica. It adds what that server lacks:
it repairs the state before the start, locks the state directory, exits with a clear last line when it cannot start, and
reports its port with a nonce, so that no other server can be mistaken for it. On SIGTERM it lets runs finish and clients
read their answers before it writes its state and exits. On a second one it does not wait for runs any longer.

One argument: a JSON file with the launch options (langgraph-python-launch.ts, replica-files.ts). It contains no secrets.
"""

import asyncio
import contextlib
import contextvars
import fcntl
import io
import json
import logging
import os
import pickle
import shutil
import signal
import site
import socket
import sys
import time
import traceback
import typing

state_name = ".langgraph_api"


def main(options):
    if options.get("engineSchema") is not None:
        return main_on_aegra(options)
    lock = lock_state(options["stateDir"])
    enter_view(options)
    with temporary_environment(options["serverEnvironment"]):
        # The server reads its settings once, on import.
        from langgraph_api import __version__
        from langgraph_api.server import app

    repair_state(os.path.join(options["stateDir"], state_name))
    app = with_tokens(app, count_tokens())
    asyncio.run(serve(app, options, Server(__version__, log_config, drain, load_failure, harden_persistence)))
    lock.close()


class Server(typing.NamedTuple):
    version: str
    log_config: dict | None
    drain: typing.Callable
    load_failure: typing.Callable
    prepare: typing.Callable = lambda: None


def main_on_aegra(options):
    """Replicas share the state, so nothing is locked or repaired here."""
    enter_view(options)
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from pierhead_aegra import start

    app, version = start.prepare(options, count_tokens())
    failure = lambda: None if start.failure is None else one_line(start.failure)
    asyncio.run(serve(app, options, Server(version, None, start.drain, failure)))


def count_tokens():
    """Counts the tokens of all calls of models in this process, as the models report them."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook

    class Tokens(BaseCallbackHandler):
        input = output = 0
        # Without it, each event of an asynchronous run goes through a thread, also each piece of a streamed answer.
        run_inline = True
        ignore_chat_model = ignore_chain = ignore_retriever = ignore_agent = ignore_retry = ignore_custom_event = True

        def on_llm_end(self, response, **_):
            for generations in response.generations:
                message = getattr(generations[0], "message", None) if generations else None
                usage = getattr(message, "usage_metadata", None) or {}
                self.input += usage.get("input_tokens") or 0
                self.output += usage.get("output_tokens") or 0

        def take(self):
            taken = {"input_tokens": self.input, "output_tokens": self.output}
            self.input -= taken["input_tokens"]
            self.output -= taken["output_tokens"]
            return taken

    tokens = Tokens()
    register_configure_hook(contextvars.ContextVar("pierhead_tokens", default=tokens), True)
    return tokens


def with_tokens(app, tokens):
    """Adds the tokens to the counts of runs that the server reports."""

    async def wrapped(scope, receive, send):
        is_asked = scope["type"] == "http" and scope["path"] == "/metrics" and b"format=json" in scope["query_string"]
        if not is_asked or tokens.input + tokens.output == 0:
            return await app(scope, receive, send)
        start, body = {}, b""

        async def collect(message):
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            with contextlib.suppress(ValueError, KeyError, TypeError):
                counts = json.loads(body)
                counts["queue"].update(n_input_tokens=tokens.input, n_output_tokens=tokens.output)
                body = json.dumps(counts).encode()
            headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
            await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
            await send({"type": "http.response.body", "body": body})

        await app(scope, receive, collect)

    return wrapped


def enter_view(options):
    os.chdir(make_view(options))
    site.addsitedir(options["packagesDir"])
    sys.path.extend(options["importDirs"])


def lock_state(directory):
    """Locks the state directory. Two servers on it destroy data: each holds all of it in memory and writes it back."""
    file = open(os.path.join(directory, ".pierhead-lock-python"), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RuntimeError(f"another process is using the state in {directory}; two servers on it would destroy it")
    return file


def make_view(options):
    """Creates the working directory. It looks like the project, because agents open relative paths, but contains the
    state of this deployment. Files that an agent writes there are deleted with the replica. The artifact stays unmodified."""
    state = os.path.join(options["stateDir"], state_name)
    os.makedirs(state, mode=0o700, exist_ok=True)
    source, view = options["artifactDir"], options["viewDir"]
    shutil.rmtree(view, ignore_errors=True)
    for part in [*options["directory"], None]:
        os.makedirs(view)
        for name in os.listdir(source):
            if name not in (part, state_name):
                os.symlink(os.path.join(source, name), os.path.join(view, name))
        if part is not None:
            source, view = os.path.join(source, part), os.path.join(view, part)
    os.symlink(state, os.path.join(view, state_name))
    return view


def repair_state(directory):
    """Moves unreadable state files aside, which the server would delete, and restores the backup of the last start."""
    for name in sorted(os.listdir(directory)):
        file = os.path.join(directory, name)
        if not name.endswith(".pckl"):
            continue
        if is_readable(file):
            shutil.copyfile(file, f"{file}.copy.draft")
            os.replace(f"{file}.copy.draft", f"{file}.copy")
            continue
        aside = f"{file}.unreadable-{int(time.time())}"
        os.replace(file, aside)
        has_backup = os.path.exists(f"{file}.copy") and is_readable(f"{file}.copy")
        if has_backup:
            shutil.copyfile(f"{file}.copy", file)
        restored = "; restored the copy of the last start" if has_backup else ""
        warn(f"state file was unreadable and is now {aside}{restored}")


def is_readable(file):
    try:
        with open(file, "rb") as content:
            pickle.load(content)
        return True
    except Exception as error:
        warn(f"{os.path.basename(file)} cannot be read: {one_line(error)}")
        return False


# As often as the state of JavaScript agents. Each write contains the whole state, so a large state is written less often:
# writing takes at most a twentieth of the time.
flush_interval_s = 5
pause_per_write = 19


def harden_persistence():
    """Changes how the server writes its state. Unchanged, it writes one part after another while runs modify them, so a
    checkpoint may lack its values after a crash, and its first error stops all further writes."""
    try:
        from langgraph.checkpoint.memory import PersistentDict
        from langgraph_runtime_inmem import _persistence

        known = (PersistentDict.dump, PersistentDict.sync, _persistence._flush_loop, _persistence._stores)
        _persistence.stop_flush_loop()  # it runs since the import; the next part that registers starts ours
    except (ImportError, AttributeError):
        return warn("this version of the server stores its state in an unknown way; state is written as the server does it")
    assert known
    loop = asyncio.get_running_loop()

    def flush_loop(stopping):
        pause = flush_interval_s
        while not stopping.wait(pause):
            began = time.monotonic()
            try:
                parts = asyncio.run_coroutine_threadsafe(take_parts(), loop)
                # The thread that stops this loop waits for it inside the event loop that this loop waits for.
                while not parts.done() and not stopping.wait(0.01):
                    pass
                if not parts.done():
                    return
                replace_files(parts.result())
            except Exception as error:
                log("error", f"the state was not written: {one_line(error)}")
            pause = max(flush_interval_s, pause_per_write * (time.monotonic() - began))

    async def take_parts():
        """Copies the whole state at one moment: no run continues meanwhile."""
        registered = [part for reference in _persistence._stores.values() if (part := reference()) is not None]
        living = {part.filename: part for part in [*registered, *checkpoint_parts()]}
        return [(name, bytes_of(part)) for name, part in living.items()]

    def sync(self):
        replace_files([(self.filename, bytes_of(self))])

    PersistentDict.sync = sync
    _persistence._flush_loop = flush_loop


def checkpoint_parts():
    """The parts that the server uses. Later objects register under the same names, empty and stale, and replace them."""
    memory = getattr(sys.modules.get("langgraph_runtime_inmem.checkpoint"), "MEMORY", None)
    parts = [getattr(memory, name, None) for name in ("storage", "writes", "blobs")]
    return [part for part in parts if hasattr(part, "filename")]


def bytes_of(part):
    content = io.BytesIO()
    part.dump(content)
    return content.getbuffer()


def replace_files(parts):
    """Replaces files atomically, also across a power cut. The files of one snapshot change together."""
    for name, content in parts:
        with open(f"{name}.draft", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for name, _ in parts:
        os.replace(f"{name}.draft", name)


@contextlib.contextmanager
def temporary_environment(variables):
    """Sets the server's own settings during its import. A deployment's own variables of these names return afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    yield
    for name, value in before.items():
        if value is not None:
            os.environ[name] = value


async def serve(app, options, kind):
    import uvicorn

    kind.prepare()
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Any free port on the loopback, unless the options name one because the server is alone in a container.
    listening.bind((options.get("host", "127.0.0.1"), options.get("port", 0)))
    port = listening.getsockname()[1]
    os.environ["PORT"] = str(port)

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets=sockets)
            if self.started:
                report(options, port, kind.version)

        @contextlib.contextmanager
        def capture_signals(self):
            yield  # our own handlers decide when it stops

        def install_signal_handlers(self):
            pass

    # Keep connections open longer than the gateway does, so that the gateway closes them first.
    server = Server(uvicorn.Config(app, lifespan="on", access_log=False, log_config=kind.log_config, timeout_keep_alive=75))
    logged = LoggedCause()
    logging.getLogger("uvicorn.error").addFilter(logged)
    draining = []
    hurry = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end():
        if draining:
            return hurry.set()
        draining.append(loop.create_task(kind.drain(server, options["drainTimeoutMs"] / 1000, hurry)))

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, end)
    with contextlib.suppress(SystemExit):  # newer versions of uvicorn exit when the application does not start
        await server.serve(sockets=[listening])
    if not server.started:
        raise NotStarted(kind.load_failure() or logged.cause or "see the lines above")


class NotStarted(Exception):
    """The server ended before it was ready. It has logged the traceback already, and ours would hide it."""


class LoggedCause(logging.Filter):
    """Keeps the first line of the last exception whose traceback uvicorn logs. No other way leads to it."""

    cause = None

    def filter(self, record):
        _, begin, trace = record.getMessage().rpartition("Traceback (most recent call last):")
        if begin:
            self.cause = next((line for line in trace.split("\n") if line[:1].strip()), self.cause)
        return True


log_config = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"simple": {"class": "langgraph_api.logging.Formatter"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "simple", "stream": "ext://sys.stdout"}},
    "loggers": {"uvicorn": {"level": "WARNING"}, "uvicorn.error": {"level": "WARNING"}},
    "root": {"handlers": ["console"]},
}


def report(options, port, version):
    if options["reportFile"] is None:
        return
    content = {
        "pid": os.getpid(),
        "port": port,
        "nonce": options["nonce"],
        "serverVersion": version,
        "healthPath": options["healthPath"],
    }
    draft = f"{options['reportFile']}.draft"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    os.replace(draft, options["reportFile"])


# Streams of a run end a moment after the run.
stream_grace_s = 2

# Time for writing the state before the driver kills this process: a busy agent has tens of megabytes.
flush_reserve_s = 2


async def drain(server, timeout_s, hurry):
    """Waits for runs, unless a second signal says that the driver is about to kill this process."""
    end = time.monotonic() + max(timeout_s / 2, timeout_s - flush_reserve_s - stream_grace_s)
    while time.monotonic() < end and not hurry.is_set() and running_count() > 0:
        await asyncio.sleep(0.1)
    server.config.timeout_graceful_shutdown = 0 if hurry.is_set() else min(stream_grace_s, max(1, int(timeout_s / 4)))
    server.should_exit = True


def running_count():
    queue = sys.modules.get("langgraph_runtime_inmem.queue")
    return len(getattr(queue, "WORKERS", ()))


def load_failure():
    """Returns what the server knows about a graph that it could not load; the server itself only exits with a code."""
    lifespan = sys.modules.get("langgraph_runtime_inmem.lifespan")
    error = lifespan.get_last_error() if hasattr(lifespan, "get_last_error") else None
    return None if error is None else one_line(error)


def one_line(error):
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def warn(text):
    log("warning", text)


def log(level, text):
    print(f"{level}: pierhead: {text}", file=sys.stderr, flush=True)


def run():
    """Runs the shim. Prints the whole error, and its first line again, which must be among the last lines."""
    with open(sys.argv[1]) as file:
        options = json.load(file)
    code = 0
    try:
        main(options)
    except SystemExit as error:
        code = 1
        ended = f"a graph or one of its imports exited the program with exit code {error.code}"
        log("error", f"the agent server could not start: {load_failure() or ended}")
    except NotStarted as error:
        code = 1
        log("error", f"the agent server could not start: {error}")
    except BaseException as error:
        code = 1
        traceback.print_exc()
        log("error", f"the agent server could not start: {one_line(error)}")
    if options["exitCodeFile"] is not None:
        with open(options["exitCodeFile"], "w") as file:
            file.write(str(code))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread of the agent that never ends must not block the exit


run()
