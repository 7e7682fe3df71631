"""First program of an image with a LangGraph agent in Python. Becomes the host shim of its server.

    python langgraph-python-start.py LAUNCH SHIM STATE

LAUNCH was written when the image was built: options of the shim, the environment from langgraph.json, and the engine.
"""

import json
import os
import sys
import tempfile


def on_aegra():
    """As in the process driver: deployments that name a database themselves may share it, and a Redis, too."""
    for service, title, variable in (("POSTGRES", "a PostgreSQL", "DATABASE_URI"), ("REDIS", "a Redis", "REDIS_URI")):
        if not os.environ.get(variable):
            sys.exit(
                f"The engine aegra needs {title}, and this deployment has none. Set {service}_URI_CUSTOM among its variables, or give the server databases for agents and create the deployment again, or choose the engine memory."
            )
    deployment = os.environ.get("LANGSMITH_HOST_PROJECT_ID", "")
    schema = f"aegra_{deployment.replace('-', '')}" if os.environ.get("POSTGRES_URI_CUSTOM") and deployment else "aegra"
    own = None if os.environ.get("REDIS_URI_CUSTOM") else os.environ.get("REDIS_KEY_PREFIX")
    return {"engineSchema": schema, "redisPrefix": f"{deployment}:" if own is None else own}


launch_file, shim, state_dir = sys.argv[1:]
with open(launch_file) as file:
    launch = json.load(file)
for name, value in launch["environment"].items():
    os.environ.setdefault(name, value)
os.makedirs(state_dir, exist_ok=True)
options = {
    **launch["options"],
    **(on_aegra() if launch.get("engine") == "aegra" else {}),
    "stateDir": state_dir,
    "viewDir": os.path.join(tempfile.gettempdir(), "pierhead-view"),
    "host": os.environ.get("HOST", "0.0.0.0"),
    "port": int(os.environ.get("PORT", "8000")),
    "drainTimeoutMs": int(os.environ.get("PIERHEAD_DRAIN_TIMEOUT_MS", "180000")),
    "nonce": "",
    "reportFile": None,
    "exitCodeFile": None,
}
options_file = os.path.join(tempfile.gettempdir(), "pierhead-launch.json")
with open(options_file, "w") as file:
    json.dump(options, file)
os.execv(sys.executable, [sys.executable, "-P", shim, options_file])
