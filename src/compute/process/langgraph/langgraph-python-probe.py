"""Checks that the agent server works with the packages of this environment: two runs on one thread of a graph of our own,
whose state is then read back. Prints one line, `works` or the reason why it does not.

    python langgraph-python-probe.py SHIM DIRECTORY

SHIM is langgraph-python-shim.py, DIRECTORY an empty directory for its files.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

graph = """
import operator
from typing import Annotated
from typing_extensions import TypedDict
from langgraph.graph import StateGraph

class Turns(TypedDict):
    turns: Annotated[int, operator.add]

builder = StateGraph(Turns)
builder.add_node("count", lambda state: {"turns": 1})
builder.add_edge("__start__", "count")
builder.add_edge("count", "__end__")
graph = builder.compile()
"""

# Longer than the slowest start of a server on a loaded machine.
start_timeout_s = 100


def main(shim, directory):
    place = lambda name: os.path.join(directory, name)
    for name in ("project", "packages", "state"):
        os.mkdir(place(name))
    with open(place("project/probe.py"), "w") as file:
        file.write(graph)
    options = {
        "stateDir": place("state"),
        "viewDir": place("view"),
        "artifactDir": place("project"),
        "directory": [],
        "packagesDir": place("packages"),
        "importDirs": [],
        "serverEnvironment": {
            "LANGSERVE_GRAPHS": json.dumps({"probe": f"{place('project/probe.py')}:graph"}),
            "LANGGRAPH_RUNTIME_EDITION": "inmem",
            "DATABASE_URI": ":memory:",
            "REDIS_URI": "fake",
            "MIGRATIONS_PATH": "__inmem",
        },
        "healthPath": "/ok",
        "reportFile": place("report"),
        "exitCodeFile": None,
        "nonce": "",
        "drainTimeoutMs": 1000,
    }
    with open(place("launch"), "w") as file:
        json.dump(options, file)
    env = {**os.environ, "N_JOBS_PER_WORKER": "1", "LANGGRAPH_ALLOW_BLOCKING": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    with open(place("log"), "w+") as log:
        server = subprocess.Popen([sys.executable, "-P", shim, place("launch")], stdout=log, stderr=log, env=env)
        try:
            take_turns(f"http://127.0.0.1:{port_of(server, place('report'), log)}")
        finally:
            server.kill()
            server.wait()


def port_of(server, report, log):
    end = time.monotonic() + start_timeout_s
    while not os.path.exists(report):
        if server.poll() is not None:
            log.seek(0)
            lines = [line.strip() for line in log if line.strip()] or ["it ended without a reason"]
            raise RuntimeError(lines[-1].removeprefix("error: pierhead: "))
        if time.monotonic() > end:
            raise RuntimeError("the agent server did not start in time")
        time.sleep(0.05)
    with open(report) as file:
        return json.load(file)["port"]


def take_turns(url):
    def ask(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
        try:
            # The server is on this host: no proxy.
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{error.code}: {error.read().decode()}")
        if isinstance(answer, dict) and "__error__" in answer:
            raise RuntimeError(answer["__error__"].get("message"))
        return answer

    def step(name, *request):
        try:
            return ask(*request)
        except Exception as error:
            raise RuntimeError(f"{name} failed: {error}")

    thread = f"/threads/{step('creating a thread', '/threads', {})['thread_id']}"
    run = {"assistant_id": "probe", "input": {"turns": 0}}
    step("the first run on a thread", f"{thread}/runs/wait", run)
    step("the second run on a thread", f"{thread}/runs/wait", run)
    values = step("reading the state of a thread", f"{thread}/state")["values"]
    if values.get("turns") != 2:
        raise RuntimeError(f"the state of a thread was lost: {json.dumps(values)}")


try:
    main(*sys.argv[1:])
except Exception as error:
    print((str(error).strip() or type(error).__name__).split("\n")[0])
    sys.exit(1)
print("works")
