"""Runs a program in a terminal of its own: exec-terminal.py COLUMNS ROWS PROGRAM [ARGUMENT...]

Input and output of the terminal are standard input and output. Lines of `COLUMNS ROWS` on descriptor 3 change its size. When
descriptor 3 closes, the server has died: the terminal closes, and its programs get SIGHUP.
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


def resize(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def write(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]


def copy(terminal):
    """Returns whether the server has died, or otherwise when the terminal has closed, because no program uses it any more."""
    sources = [0, CONTROL, terminal]
    while True:
        for source in select.select(sources, [], [])[0]:
            try:
                data = os.read(source, CHUNK)
            except OSError:  # Linux reports the end of a terminal as an error
                data = b""
            if source == terminal:
                if not data:
                    return False
                write(1, data)
            elif source == CONTROL:
                if not data:
                    return True
                columns, rows = data.split(b"\n")[-2].split()
                resize(terminal, int(columns), int(rows))
            elif data:
                write(terminal, data)
            else:
                sources.remove(0)
                write(terminal, b"\x04")  # the end of input, as Ctrl-D sends it


def main():
    columns, rows, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    pid, terminal = pty.fork()
    if pid == 0:
        os.close(CONTROL)
        try:
            os.execvp(program[0], program)
        except OSError as error:
            print(f"pierhead: cannot start {program[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    resize(terminal, columns, rows)
    has_server_died = copy(terminal)
    os.close(terminal)
    if has_server_died:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


main()
