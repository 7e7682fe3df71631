"""Installs a project's dependencies with an agent server that fits them, into the environment whose Python runs it.

    python install.py OPTIONS -- ARGUMENT...

OPTIONS is a JSON object: `servers` names a JSON file with the agent servers, newest first, `serverPackages` their packages,
`installer` is the command to which arguments are added, `lock` a uv.lock, poetry.lock, pdm.lock or compiled
requirements.txt whose versions apply (null: none), `check` the command of the
probe (null: none), `checkedDir` where passed checks are recorded (null: nowhere), `uv` the line with which pip installs uv when it
installs everything else. The argument
`--dependencies-of FILE` stands for the dependencies in a pyproject.toml, without the project itself.

The first attempt pins the newest server with all packages it is tested with. The project's own versions take precedence: on
a conflict, the project is resolved without a server, and the newest server that fits the result is installed. A server that
fits by its metadata must also pass the probe. The lock file is given up last, and only as far as it must be. Of a project that its build backend cannot
package, only the dependencies are installed.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse

# Python does not find the module beside this program: -P keeps the programs of an image out of the way of the project's modules.
# Nothing is written beside it, because the directory belongs to the package of the control plane.
sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from kept_versions import canonical, find_uv, fitting_versions, pins, write_lines  # noqa: E402

sys.path.pop()

# Exit code when the last line that was printed says what is wrong and what to do.
EXPLAINED = 3


def main(options, arguments):
    wanted = wanted_of(arguments)
    try:
        install_all(options, wanted)
    except NotPackaged as error:
        alone = without_projects(wanted, is_uv(options))
        if alone is None:
            sys.exit(error.code)
        choose(options, "The project itself cannot be packaged. Installing only its dependencies and running it from its directory.")
        install_all(options, alone)


def install_all(options, wanted):
    with open(options["servers"]) as file:
        servers = json.load(file)
    install = Installer(options, wanted)
    locked = {} if options.get("lock") is None else locked_versions(options["lock"])
    problem = install.with_any(servers, locked)
    if problem is not None and locked:
        name = os.path.basename(options["lock"])
        choose(options, f"No agent server works with the versions in {name}. Installing the versions that the project allows instead.")
        problem = None if install.with_kept(servers, locked) else install.with_any(servers, {})
    if problem is not None:
        say(problem)
        sys.exit(EXPLAINED)


def wanted_of(arguments):
    wanted = []
    for before, argument in zip(["", *arguments], arguments):
        if before == "--dependencies-of":
            wanted += dependencies_of(argument)
        elif argument != "--dependencies-of":
            wanted.append(argument)
    return wanted


def is_uv(options):
    return os.path.basename(options["installer"][0]) == "uv"


def without_projects(wanted, is_uv):
    """Replaces local packages by their dependencies. Returns None when a package does not declare any."""
    alone = []
    for before, argument in zip(["", *wanted], wanted):
        if before == "--editable":
            file = os.path.join(argument, "pyproject.toml")
            if not os.path.exists(file) or not dependencies_of(file):
                return None
            # uv also reads where the project's packages come from, such as members of its workspace.
            alone += ["--requirement", file] if is_uv else dependencies_of(file)
        elif argument != "--editable":
            alone.append(argument)
    return alone


class NotPackaged(Exception):
    """A build backend cannot package the project itself."""

    def __init__(self, code):
        self.code = code


def dependencies_of(file):
    with open(file, "rb") as opened:
        needed = tomllib.load(opened).get("project", {}).get("dependencies", [])
    # Directories beside the project have not been copied yet.
    return [one for one in needed if "file:" not in one]


def locked_versions(file):
    """Returns the versions of published packages. A package with several versions for several platforms is left to the installer."""
    versions = {}
    if file.endswith(".txt"):
        with open(file) as opened:
            pinned = re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;\\\\]+)", opened.read(), re.MULTILINE)
        for name, version in pinned:
            versions.setdefault(canonical(name), set()).add(version)
    else:
        with open(file, "rb") as opened:
            packages = tomllib.load(opened).get("package", [])
        # In a poetry.lock or pdm.lock, packages of the default index have no source.
        unnamed = {} if file.endswith("uv.lock") else {"registry": ""}
        for package in packages:
            if {"git", "url", "path"}.isdisjoint(package) and "version" in package and "registry" in package.get("source", unnamed):
                versions.setdefault(canonical(package["name"]), set()).add(package["version"])
    return {name: next(iter(found)) for name, found in versions.items() if len(found) == 1}


# pip and uv print these lines first and explain them at length.
conflict = re.compile(r"ResolutionImpossible|No solution found|resolution-too-deep")

# How uv names the package that it cannot build, and pip what it does for an editable one.
build_failed = re.compile(r"Failed to build `\S+ @ file://([^`]+)`")
unbuildable = re.compile(
    r"Failed to (?:download and )?build `([\w.-]+)==|Failed building wheel for ([\w.-]+)|Failed to build '([\w.-]+)'"
)
editable_failed = re.compile(r"(build editable|editable metadata|build_editable).* did not run successfully")


class Installer:
    def __init__(self, options, wanted):
        self.options = options
        self.wanted = wanted
        self.server_packages = options["serverPackages"]
        self.is_uv = is_uv(options)
        # Packages whose pinned version counts whatever the project's requirements say about them.
        self.overridden = []
        # Packages of which only versions without a build are installed.
        self.binaries = []
        self.projects = {os.path.realpath(one) for before, one in zip(["", *wanted], wanted) if before == "--editable"}

    def with_any(self, servers, locked):
        """Installs the newest server that fits. Returns None, or why there is none."""
        newest = servers[0]
        if self.attempt(self.pinned(newest, locked)):
            failure = self.check()
            if failure is None:
                return None
            say(f"The agent server {newest['version']} does not work with the project: {failure}")
        found = self.alone(locked)
        if found is None:
            return "The project's own requirements exclude each other (see above). Correct them and deploy again."
        if self.server_packages[0] in found:
            named = found[self.server_packages[0]]
            choose(self.options, "The project pins another version of the agent server: using that version.")
            if not self.attempt(locked):
                return conflict_of(found, servers)
            failure = self.check()
            if failure is None:
                return None
            failure = f"The agent server {named}, which the project's requirements name, does not work with {shown(found)}: {failure}."
            if not self.is_uv:
                return f"{failure} Remove langgraph-api, or the extra inmem of langgraph-cli, from the requirements and deploy again."
            say(f"{failure} Replacing it.")
            # Most often only a tool for development names it: langgraph-cli[inmem].
            self.overridden = self.server_packages
            locked = {name: version for name, version in locked.items() if name not in self.overridden}
        failures = []
        fitting = [server for server in servers if not misfits_of(server, found)]
        # The project may also allow older versions than those that were found.
        fitting += [server for server in servers if server not in fitting and not misfits_of(server, found, ">=")]
        for server in fitting:
            # The newest has been tried with all its pins.
            pinned = [] if server is newest else [self.pinned(server, locked)]
            for constraints in [*pinned, self.only_server(server, locked)]:
                if not self.attempt(constraints):
                    continue
                failure = self.check()
                if failure is None:
                    choose(self.options, f"Using the agent server {server['version']}, the newest that works with {shown(found)}.")
                    return None
                failures.append(f"The agent server {server['version']} does not work with {shown(found)}: {failure}.")
                say(failures[-1])
        # Between the servers above are others that may fit.
        if fitting and not self.overridden and self.attempt(locked):
            failure = self.check()
            version = importlib.metadata.version(self.server_packages[0])
            if failure is None:
                choose(self.options, f"Using the agent server {version}, which works with {shown(found)}.")
                return None
            failures.append(f"The agent server {version} does not work with {shown(found)}: {failure}.")
        return " ".join([*failures[-1:], conflict_of(found, servers)])

    def with_kept(self, servers, locked):
        """Installs the newest server with the locked versions that fit it. Returns whether there is one."""
        uv = (self.options["installer"][0], None) if self.is_uv else find_uv(self.options["uv"])
        for server in [] if uv is None else servers:
            wanted = [*self.server_packages, *self.wanted]
            versions = fitting_versions(uv, wanted, locked, self.only_server(server, {}), self.only_binary())
            if versions is None or not self.attempt(versions) or self.check() is not None:
                continue
            kept = sum(versions.get(name) == version for name, version in locked.items())
            choose(self.options, f"Using the agent server {server['version']} and {kept} of the {len(locked)} locked versions.")
            return True
        return False

    def pinned(self, server, locked):
        pins = {canonical(name): version for name, version in server["pins"].items()}
        return {**pins, **locked}

    def only_server(self, server, locked):
        return {**{name: server["pins"][name] for name in self.server_packages}, **locked}

    def attempt(self, constraints):
        lines = self.run([*self.server_packages, *self.wanted], constraints)
        return lines is not None

    def alone(self, locked):
        """Returns the versions that the project needs without a server, or None when there are none."""
        say("The newest agent server does not fit the project: looking for the versions that the project needs.")
        again = "--reinstall" if self.is_uv else "--ignore-installed"
        lines = self.run([*self.wanted, "--dry-run", again], locked) if self.wanted else []
        if lines is None:
            return None
        if self.is_uv:
            pairs = [line[3:].split("==", 1) for line in lines if line.startswith(" + ") and "==" in line]
        else:
            found = [line for line in lines if line.startswith("Would install ")]
            pairs = [one.rsplit("-", 1) for line in found for one in line.split()[2:]]
        return {canonical(name): version.split(" ")[0] for name, version in pairs}

    def run(self, arguments, constraints):
        """Runs the installer. Returns its output, or None when versions conflict. Ends this program on any other failure."""
        with tempfile.TemporaryDirectory() as directory:
            pinned, overriding = (os.path.join(directory, name) for name in ("constraints.txt", "overrides.txt"))
            write_lines(pinned, pins(constraints))
            write_lines(overriding, pins({name: constraints[name] for name in self.overridden if name in constraints}))
            override = ["--override", overriding] if self.overridden else []
            argv = [*self.options["installer"], "--constraint", pinned, *override, *self.only_binary(), *arguments]
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            lines = []
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip("\n"))
            code = process.wait()
        if code == 0:
            return lines
        if any(conflict.search(line) for line in lines):
            return None
        code = code if code > 0 else 1
        package = next((match[1] or match[2] or match[3] for match in map(unbuildable.search, lines) if match), None)
        if package is not None and package not in self.binaries and len(self.binaries) < 3:
            say(f"{package} cannot be built on this machine. Looking for a version of it that needs no build.")
            self.binaries.append(package)
            return self.run(arguments, constraints)
        if self.projects and any(self.is_own_failure(line) for line in lines):
            raise NotPackaged(code)
        sys.exit(code)

    def only_binary(self):
        return [word for name in self.binaries for word in ("--only-binary", name)]

    def is_own_failure(self, line):
        failed = build_failed.search(line)
        if failed is None:
            return editable_failed.search(line) is not None
        return os.path.realpath(urllib.parse.unquote(failed[1])) in self.projects

    def check(self):
        """Runs the probe. Returns why it failed. Equal versions are checked once."""
        probe, checked_dir = self.options.get("check"), self.options.get("checkedDir")
        if probe is None:
            return None
        record = None if checked_dir is None else os.path.join(checked_dir, self.fingerprint())
        if record is not None and os.path.exists(record):
            return None
        say("Checking that the agent server works with the project's packages: two runs on one thread.")
        directory = tempfile.mkdtemp()
        try:
            run = subprocess.run([*probe, directory], stdout=subprocess.PIPE, text=True, timeout=300)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        if run.returncode != 0:
            return (run.stdout.strip().split("\n")[-1] or "it ended without a reason").rstrip(".")
        if record is not None:
            os.makedirs(checked_dir, exist_ok=True)
            open(record, "w").close()
        return None

    def fingerprint(self):
        with open(self.options["servers"]) as file:
            names = {canonical(name) for server in json.load(file) for name in server["pins"]}
        found = {canonical(one.metadata["Name"]): one.version for one in importlib.metadata.distributions()}
        what = [sys.version, sorted((name, version) for name, version in found.items() if name in names)]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]


def misfits_of(server, found, operators=(">=", "<")):
    """Returns the packages of the project that a server cannot work with, by the bounds with these operators."""
    misfits = []
    for name, needed in server["requires"].items():
        bounds = ",".join(part for part in needed.split(",") if part.startswith(operators))
        if name in found and bounds and not is_in(found[name], bounds):
            misfits.append(name)
    return misfits


def conflict_of(found, servers):
    lowest = {name: needed.split(",")[0] for name, needed in servers[-1]["requires"].items()}
    old = [name for name, needed in lowest.items() if name in found and not is_in(found[name], needed)]
    if old:
        needs = " and ".join(f"{name} {lowest[name].removeprefix('>=')} or newer" for name in old)
        has = " and ".join(f"{name} {found[name]}" for name in old)
        return f"The agent server needs {needs}, but the project installs {has}. Raise it in the project's requirements and deploy again."
    return (
        f"No agent server works with {shown(found)} and the other versions that the project requires (see above). "
        "Loosen the version that the lines above name, or remove the pin, and deploy again."
    )


def shown(found):
    names = [name for name in ("langgraph", "langgraph-checkpoint", "langchain-core") if name in found]
    return ", ".join(f"{name} {found[name]}" for name in names) or "the project"


def is_in(version, needed):
    have = numbers(version)
    for part in needed.split(","):
        operator, bound = re.match(r"(>=|<)(.+)", part).groups()
        if (have < numbers(bound)) if operator == ">=" else (have >= numbers(bound)):
            return False
    return True


def numbers(version):
    parts = [int(part) for part in re.match(r"\d+(\.\d+)*", version)[0].split(".")]
    return (parts + [0, 0, 0])[:3]


def say(text):
    print(text, flush=True)


def choose(options, text):
    """Says a decision, and records it for the builds that reuse the environment."""
    say(text)
    if options.get("choices") is not None:
        with open(options["choices"], "a") as file:
            file.write(text + "\n")


at = sys.argv.index("--")
main(json.loads(sys.argv[1]), sys.argv[at + 1 :])
