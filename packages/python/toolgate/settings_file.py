"""Settings from a file of toolgate, which the command `toolgate` reads: there is one reader for its many shapes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolgate.errors import SettingsError
from toolgate.programs import beside_python
from toolgate.records import Record

if TYPE_CHECKING:
    from typing_extensions import Self

# The names in the JSON of `toolgate settings`, where they are others than in the WIT.
NAMES = {
    "settings": {"masking": "masks"},
    "server_settings": {"masking": "masks"},
    "selection": {"name": "id"},
    "choice": {"name": "id"},
    "lists": {"when": "condition", "then": "effect"},
}


class SettingsFile(Record):
    """Settings that can be read from a file."""

    @classmethod
    def from_file(
        cls,
        file: str | os.PathLike[str],
        *,
        principal: str | None = None,
        command: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Reads the settings of a `toolgate.yaml`, or of any other file that toolgate reads.

        With `principal`, the settings are those of one principal of its gateway. `command` is the program `toolgate`;
        without it, the one beside this Python or in PATH is used. Raises `SettingsError`, with the words of the program,
        if the file cannot be read.
        """
        program = os.fspath(command or find_command())
        try:
            arguments = [program, "settings", "--config", os.fspath(file)]
            arguments += [] if principal is None else ["--principal", principal]
            ran = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except OSError as error:
            raise SettingsError(f"cannot run {program} to read {os.fspath(file)}: {error}") from error
        if ran.returncode != 0:
            raise SettingsError(f"{program} cannot read {os.fspath(file)}: {ran.stderr.strip()}")
        try:
            return cls.from_json(ran.stdout)
        except (AttributeError, TypeError, ValueError) as error:
            raise SettingsError(f"{program} is of another version than this library: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads the settings as `toolgate settings` prints them and records contain them."""
        return cls(**renamed("settings", json.loads(text)))


def find_command() -> str:
    """Returns the program `toolgate` beside this Python or in PATH."""
    # A relative entry means the working directory, which may have come with a download.
    folders = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
    found = beside_python("toolgate") or shutil.which("toolgate", path=os.pathsep.join(folders))
    if found is None:
        raise SettingsError(
            f"there is no program `toolgate` in {sysconfig.get_path('scripts')} or in PATH, which reads settings from "
            "files: install the wheel that has it, or pass command=…"
        )
    return found


def renamed(place: str, value: Any) -> Any:
    """Returns JSON with the names of the WIT; `place` is the member that the value is in."""
    if isinstance(value, list):
        return [renamed(place, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    names = NAMES.get(place, {})
    members = {names.get(name, name): renamed(name, member) for name, member in value.items()}
    if place == "servers":  # the WIT keeps the two lists in a record of their own
        members["rules"] = {name: members.pop(name) for name in ("allow", "deny") if name in members}
    return members
