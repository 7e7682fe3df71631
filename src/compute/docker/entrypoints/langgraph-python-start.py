"""First program of an image with a LangGraph agent in Python. Becomes the host shim of its server.

    python langgraph-python-start.py LAUNCH SHIM STATE

LAUNCH was written when the image was built: options of the shim, and the environment from langgraph.json.
"""

import json
import os
import sys
import tempfile

launch_file, shim, state_dir = sys.argv[1:]
with open(launch_file) as file:
    launch = json.load(file)
for name, value in launch["environment"].items():
    os.environ.setdefault(name, value)
os.makedirs(state_dir, exist_ok=True)
options = {
    **launch["options"],
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
