"""Finds the versions of an outdated lock file that still fit a project. install.py and install-server.py use it.

Only uv can prefer versions, so an image whose packages pip installs gets a uv for this step.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile

words = {"--editable": "-e", "--requirement": "-r"}


def fitting_versions(uv, arguments, locked, constraints=None, only_binary=()):
    """Resolves the arguments of an installer, keeping the locked versions that fit.

    `uv` is the program and its environment. `locked` and `constraints` are versions by name. Returns versions by name, or None when
    versions conflict.
    """
    program, environment = uv
    lines = []
    for before, argument in zip(["", *arguments], arguments):
        if before in words:
            lines.append(f"{words[before]} {os.path.abspath(argument)}")
        elif argument not in words:
            lines.append(argument)
    with tempfile.TemporaryDirectory() as directory:
        wanted, bounds, found = (os.path.join(directory, name) for name in ("wanted.in", "bounds.txt", "found.txt"))
        write_lines(wanted, lines)
        write_lines(bounds, pins(constraints or {}))
        # uv prefers the versions in the file to which it writes.
        write_lines(found, pins(locked))
        options = ["--quiet", "--no-header", "--no-annotate", "--python", sys.executable, "--constraint", bounds, *only_binary]
        argv = [program, "pip", "compile", *options, "--output-file", found, wanted]
        if subprocess.run(argv, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode != 0:
            return None
        return read_pins(found)


def find_uv(requirement):
    """Returns the uv of the machine or else one that pip installs, and its environment; None when pip cannot install it.

    `requirement` is its line for pip, with hashes.
    """
    environment = {**index_settings(), **os.environ}
    own = shutil.which("uv")
    if own is not None:
        return own, environment
    directory = temporary_directory()
    file = os.path.join(directory, "uv.txt")
    write_lines(file, [requirement])
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--retries", "1"]
    argv = [*pip, "install", *options, "--target", directory, "--requirement", file]
    if subprocess.run(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode != 0:
        return None
    return os.path.join(directory, "bin", "uv"), {**environment, "UV_CACHE_DIR": os.path.join(directory, "cache")}


def temporary_directory():
    """Makes a directory that is removed when the program ends, because what is left becomes part of the image."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


pip = [sys.executable, "-m", "pip"]

# As in uv.ts: settings of pip that decide where packages come from, and the variables of uv with the same meaning.
settings = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}


def index_settings():
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True).stdout
    lines = re.findall(r"^(\S+?)\.([\w-]+)=(['\"])(.*)\3$", listed, re.MULTILINE)
    found = {}
    # A variable of pip overrides its files.
    for section, key, _, value in sorted(lines, key=lambda line: line[0] == ":env:"):
        if key in settings and section in (":env:", "global", "install"):
            parts = re.split(r"\\n|\s+", value.strip())
            found[settings[key]] = ("," if key == "find-links" else " ").join(parts)
    # pip takes the best version of all indexes.
    return {**found, "UV_INDEX_STRATEGY": "unsafe-best-match"} if "UV_INDEX" in found else found


def read_pins(file):
    """Returns the versions in a file of requirements by name."""
    with open(file) as opened:
        pairs = re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", opened.read(), re.MULTILINE)
    return {canonical(name): version for name, version in pairs}


def pins(versions):
    return [f"{name}=={version}" for name, version in versions.items()]


def write_lines(name, lines):
    with open(name, "w") as file:
        file.writelines(f"{line}\n" for line in lines)


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()
