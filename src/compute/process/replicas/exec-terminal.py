"""Runs a program in a terminal of its own: exec-terminal.py PROGRAM [ARGUMENT...]

Input and output of the terminal are standard input and output. Lines of `COLUMNS ROWS` on descriptor 3 set its size. The program
starts after the first one. When descriptor 3 closes, the server has died: the terminal closes, and its programs get SIGHUP.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios

CONTROL = 3
CHUNK = 65536


def read(descriptor):
    try:
        return os.read(descriptor, CHUNK)
    except BlockingIOError:
        return None
    except OSError:  # Linux reports the end of a terminal as an error
        return b""


def write(descriptor, data):
    """Writes what fits, and returns the rest."""
    try:
        return data[os.write(descriptor, data) :]
    except BlockingIOError:
        return data
    except OSError:  # the other side is closed
        return b""


class Sizes:
    """The sizes on descriptor 3."""

    def __init__(self):
        self.rest = b""

    def newest(self):
        """Returns the newest size, None for an incomplete line, or False when the server has died."""
        data = read(CONTROL)
        if not data:
            return False
        *lines, self.rest = (self.rest + data).split(b"\n")
        return tuple(map(int, lines[-1].split())) if lines else None


def resize(terminal, size):
    columns, rows = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def copy(terminal, sizes):
    """Returns whether the server has died, or otherwise when the terminal has closed, because no program uses it any more.

    Nothing here blocks: a program that reads nothing must not stop its output, and a slow client must not stop its interrupts.
    """
    for descriptor in (0, 1, terminal):
        os.set_blocking(descriptor, False)
    has_input, typed, shown = True, b"", b""
    while True:
        sources = [CONTROL] + [0] * (has_input and not typed) + [terminal] * (not shown)
        targets = [terminal] * bool(typed) + [1] * bool(shown)
        readable, writable, _ = select.select(sources, targets, [])
        if CONTROL in readable:
            size = sizes.newest()
            if size is False:
                return True
            if size:
                resize(terminal, size)
        if 0 in readable:
            data = read(0)
            has_input = data != b""
            typed = data or (b"" if has_input else b"\x04")  # the end of input, as Ctrl-D sends it
        if terminal in readable:
            shown = read(terminal)
            if shown == b"":
                return False
        if terminal in writable:
            typed = write(terminal, typed)
        if 1 in writable:
            shown = write(1, shown)


def main():
    program, sizes, size = sys.argv[1:], Sizes(), None
    while not size:
        size = sizes.newest()
        if size is False:
            return
    pid, terminal = pty.fork()
    if pid == 0:
        os.close(CONTROL)
        for name in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs would inherit that
            signal.signal(name, signal.SIG_DFL)
        resize(0, size)
        try:
            os.execvp(program[0], program)
        except OSError as error:
            print(f"pierhead: cannot start {program[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    has_server_died = copy(terminal, sizes)
    os.close(terminal)
    if has_server_died:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


main()
