"""Installs a project's dependencies in addition to the agent server, while its image is built.

    python pip-install.py PINS SERVER... -- ARGUMENT...

PINS is a JSON file with the versions that the server is tested with. The project's own pins take precedence: the first
attempt pins all packages, the second only those of the server, the last none. The argument `--dependencies-of FILE`
stands for the dependencies in a pyproject.toml, without the project itself.
"""

import json
import subprocess
import sys
import tempfile


def dependencies_of(file):
    import tomllib

    with open(file, "rb") as opened:
        needed = tomllib.load(opened).get("project", {}).get("dependencies", [])
    # Directories beside the project have not been copied yet.
    return [one for one in needed if "file:" not in one]


at = sys.argv.index("--")
server, given = sys.argv[2:at], sys.argv[at + 1 :]
wanted = []
for before, argument in zip(["", *given], given):
    if before == "--dependencies-of":
        wanted += dependencies_of(argument)
    elif argument != "--dependencies-of":
        wanted.append(argument)
with open(sys.argv[1]) as file:
    pins = json.load(file)
levels = [
    (pins, None),
    (server, "The project pins other versions than those the agent server is tested with: using the project's versions."),
    ([], "The project pins another version of the agent server: using that version."),
]
for names, because in levels:
    if because:
        print(because, flush=True)
    constraints = tempfile.NamedTemporaryFile("w", suffix=".txt")
    constraints.writelines(f"{name}=={pins[name]}\n" for name in names)
    constraints.flush()
    pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--use-pep517", "--root-user-action=ignore"]
    run = subprocess.Popen(
        [*pip, "--constraint", constraints.name, *server, *wanted], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    is_conflict = False
    for line in run.stdout:
        print(line, end="", flush=True)
        is_conflict = is_conflict or "ResolutionImpossible" in line
    code = run.wait()
    if code == 0 or not is_conflict:
        break
sys.exit(code)
