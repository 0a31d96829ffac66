"""Where programs are that are not in PATH."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Mapping


def beside_python(name: str) -> str | None:
    """Returns the program of this name beside this Python: pip puts it there, also if the environment is not activated."""
    return shutil.which(name, path=sysconfig.get_path("scripts"))


def find_program(name: str, env: Mapping[str, str] | None) -> str:
    """Returns a program beside this Python if the PATH of `env`, or else of this program, does not have it.

    PATH comes first, so that `python` or `node` is the one that a shell would run.
    """
    path = os.pathsep.join(os.get_exec_path(env))
    if os.path.dirname(name) or shutil.which(name, path=path):
        return name
    return beside_python(name) or name
