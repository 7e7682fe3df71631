"""Installs the packages of a Python server while an image is built, with the repairs of a build on the host.

    python install-server.py OPTIONS

OPTIONS is a JSON object: `installer` is the command to which arguments are added, `attempts` the arguments to try, each as `argv`,
`withoutProject` (null: the project is not among them), `because`, the text to print before it, and `mayBeOutdated`, whether another
attempt follows any failure. The first attempt has the versions of the lock file. Before one without them is made, its packages are
resolved with the versions of the lock file that still fit, by the uv that `uv` names. `unsolvable` and `packaging` are forms of what the installer prints when no versions fit, and when the
files of the project do not have the form of a package.
"""

import json
import os
import re
import subprocess
import sys

# Python does not find the module beside this program: -P keeps the programs of an image out of the way of the project's modules.
# Nothing is written beside it, because the directory belongs to the package of the control plane.
sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from kept_versions import find_uv, fitting_versions, pins, read_pins, temporary_directory, write_lines  # noqa: E402

sys.path.pop()


def main(options):
    unsolvable, packaging = re.compile(options["unsolvable"]), re.compile(options["packaging"], re.IGNORECASE)
    code = 1
    for attempt in attempts_of(options):
        print(attempt["because"], flush=True)
        argv = attempt["argv"]
        code, lines = run_with_binaries(options, argv)
        if code != 0 and attempt["withoutProject"] is not None and any(packaging.search(line) for line in lines):
            print(options["sayWithoutProject"], flush=True)
            argv = attempt["withoutProject"]
            code, lines = run_with_binaries(options, argv)
        if code == 0 and lacks_pkg_resources():
            print("Newer versions of setuptools have no pkg_resources, which older packages import.", flush=True)
            run_with_binaries(options, [*argv, options["olderSetuptools"]])
        may_fail = attempt.get("hasKept") or attempt.get("mayBeOutdated")
        if code == 0 or not (may_fail or any(unsolvable.search(line) for line in lines)):
            break
    return code


def attempts_of(options):
    """Yields the attempts. Each that gives up the lock file comes after one with the versions in it that still fit."""
    first, *others = options["attempts"]
    yield first
    for attempt in others:
        has_lock = "--constraint" in attempt["argv"]
        kept = None if has_lock else with_kept(options, locked_in(first["argv"]), attempt)
        if kept is not None:
            yield kept
        yield attempt


def locked_in(argv):
    files = [file for option, file in zip(argv, argv[1:]) if option == "--constraint"]
    return {name: version for file in files for name, version in read_pins(file).items()}


def with_kept(options, locked, attempt):
    uv = find_uv(options["uv"]) if locked else None
    versions = None if uv is None else fitting_versions(uv, attempt["argv"], locked)
    kept = sum((versions or {}).get(name) == version for name, version in locked.items())
    if kept == 0:
        return None
    file = os.path.join(temporary_directory(), "kept-versions.txt")
    write_lines(file, pins(versions))
    constrained = ["--constraint", file]
    return {
        "argv": [*attempt["argv"], *constrained],
        "withoutProject": attempt["withoutProject"] and [*attempt["withoutProject"], *constrained],
        "because": f"{attempt['because']} {kept} of the {len(locked)} locked versions still fit and are kept.",
        "hasKept": True,
    }


def run_with_binaries(options, argv):
    """Installs. Of a package that cannot be built, a version is installed that needs no build, if there is one."""
    code, lines = run(options["installer"], argv)
    found = [match for match in map(re.compile(options["unbuildable"]).search, lines) if match] if code != 0 else []
    if not found:
        return code, lines
    name = next(group for group in found[0].groups() if group is not None)
    print(f"{name} cannot be built. Looking for a version of it that needs no build.", flush=True)
    return run(options["installer"], [*argv, "--only-binary", name])


def lacks_pkg_resources():
    found = "import importlib.util as u; print(bool(u.find_spec('setuptools')) and not u.find_spec('pkg_resources'))"
    return subprocess.run([sys.executable, "-c", found], capture_output=True, text=True).stdout.strip() == "True"


def run(installer, argv):
    process = subprocess.Popen([*installer, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines = [*lines[-200:], line]
    code = process.wait()
    return code if code >= 0 else 1, lines


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
