"""Loaded into a Python program under test before its own code: writes down where it connects to, and lets it connect to
this machine only. Nothing of the program itself is changed."""

import os
import sys

own_hosts = {"127.0.0.1", "localhost", "::1"}
connections_file = os.environ.get("PIERHEAD_CONNECTIONS_FILE", os.devnull)


def watch(event, arguments):
    if event == "socket.getaddrinfo":
        host, port = arguments[0], arguments[1]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host, port = arguments[1][:2]
    else:
        return
    with open(connections_file, "a") as file:
        file.write(f"{host}:{port}\n")
    if host not in own_hosts:
        raise OSError(f"{host} is outside")


sys.addaudithook(watch)
