"""The files of the server in memory, with the state that a deployment had before it ran on Aegra."""

import contextlib
import fcntl
import hashlib
import os
import pickle
import typing
from collections import defaultdict

directory_name = ".langgraph_api"

# Storage, writes and blobs are the three parts of the checkpointer, in the order in which it makes them.
file_names = {
    "rows": ".langgraph_ops.pckl",
    "storage": ".langgraph_checkpoint.1.pckl",
    "writes": ".langgraph_checkpoint.2.pckl",
    "blobs": ".langgraph_checkpoint.3.pckl",
    "items": "store.pckl",
    "vectors": "store.vectors.pckl",
}


class State(typing.NamedTuple):
    # By kind: assistants, assistant_versions, threads, runs, crons.
    rows: dict
    # Thread, namespace, checkpoint: the checkpoint, its metadata, the id of its parent.
    storage: dict
    # Thread, namespace and checkpoint: task and index: task, channel, value, path of the task.
    writes: dict
    # Thread, namespace, channel and version: value.
    blobs: dict
    # Namespace: key: item.
    items: dict
    # Namespace: key: path of the text: its vector.
    vectors: dict


def digest_of(directory):
    """Returns a digest of the files; None when there are none."""
    digest, has_some = hashlib.sha256(), False
    for name in file_names.values():
        with contextlib.suppress(FileNotFoundError), open(os.path.join(directory, name), "rb") as file:
            has_some = True
            while part := file.read(1 << 20):
                digest.update(part)
        digest.update(f"\n{name}\n".encode())
    return digest.hexdigest() if has_some else None


@contextlib.contextmanager
def unused(state_dir):
    """Locks the files as the server in memory does, because the copy would miss its later writes."""
    with open(os.path.join(state_dir, ".pierhead-lock-python"), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RuntimeError(f"another process is using the state in {state_dir}, so it is not copied") from None
        yield


def read(directory):
    return State(**{part: load(os.path.join(directory, name)) for part, name in file_names.items()})


def load(file):
    try:
        with open(file, "rb") as opened:
            return Reader(opened).load()
    except FileNotFoundError:
        return {}
    except Exception as error:
        raise RuntimeError(f"{os.path.basename(file)} cannot be read, so its state is not copied: {error}") from error


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        # The server in memory is not installed here. Its rows have its own class for users.
        if module.partition(".")[0] in ("langgraph_api", "langgraph_runtime_inmem"):
            return Unknown
        return super().find_class(module, name)


class Unknown:
    def __init__(self, *_given):
        pass

    def __new__(cls, *_given):
        return super().__new__(cls)

    def __setstate__(self, _state):
        pass


def write(directory, state):
    """Writes files from which the server in memory continues. Refuses a directory that already has such files."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    for part, name in file_names.items():
        with open(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            pickle.dump(getattr(state, part), file, 2)


def empty():
    nested = lambda: defaultdict(lambda: defaultdict(dict))
    return State(defaultdict(list), nested(), defaultdict(dict), {}, defaultdict(dict), {})
