"""Checks that Aegra works with the packages of this environment, without a database. Prints `works`, or the reason why it does not.

    python check.py DIRECTORY

DIRECTORY is an empty directory.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(directory):
    from pierhead_aegra.start import import_app

    os.chdir(directory)
    nowhere = {"AEGRA_CONFIG": "", "DATABASE_URI": "postgresql://127.0.0.1:1/none", "REDIS_URI": "redis://127.0.0.1:1"}
    import_app(nowhere, "aegra", "")


try:
    main(*sys.argv[1:])
except Exception as error:
    print(f"{type(error).__name__}: {error}".strip().split("\n")[0])
    sys.exit(1)
print("works")
