"""Packs a directory as an upload."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: Left out of directories that are no git repository. In a repository, .gitignore decides.
_LEFT_OUT = {
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".langgraph_api",
}


@dataclass(frozen=True)
class Archive:
    """A gzip tar. Equal files give equal bytes, so the server reuses what it built before."""

    content: bytes
    files: int


def pack(directory: str | os.PathLike[str]) -> Archive:
    """Packs the files of a directory. Files of git's ignore lists and `.env` files, which hold secrets, stay out.

    Raises:
        NotADirectoryError: There is no such directory.
    """
    root = Path(directory).resolve()
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is no directory")
    names = sorted(name for name in (_of_git(root) or _of_tree(root)) if _is_wanted(root, name))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped:
        with tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name in names:
                file = root / name
                info = tarfile.TarInfo(name)
                info.size = file.stat().st_size
                info.mode = 0o755 if os.access(file, os.X_OK) else 0o644
                with file.open("rb") as content:
                    tar.addfile(info, content)
    return Archive(packed.getvalue(), len(names))


def _of_git(root: Path) -> list[str] | None:
    """Returns the files that git tracks or would track; None: no repository, or no git."""
    # The configuration of a repository may name a program as its file monitor.
    git = ["git", "-c", "core.fsmonitor=false", "-C", str(root)]
    argv = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return sorted({os.fsdecode(name) for name in listed.stdout.split(b"\0") if name})


def _of_tree(root: Path) -> list[str]:
    names: list[str] = []
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if name not in _LEFT_OUT]
        names += [(Path(directory) / name).relative_to(root).as_posix() for name in files]
    return names


def _is_wanted(root: Path, name: str) -> bool:
    """Keeps regular files, also behind links within the directory, that are no secrets."""
    last = PurePosixPath(name).name
    if last == ".env" or (last.startswith(".env.") and last not in {".env.example", ".env.sample", ".env.template"}):
        return False
    file = root / name
    return file.is_file() and file.resolve().is_relative_to(root)
