"""What can go wrong outside of a call: a failed call is a result, never an exception."""

from typing import Any, Literal

from toolgate.records import Case

FailureKind = Literal[
    "cancelled", "timeout", "connect", "closed", "exited", "http", "rpc", "protocol", "queue-full", "needs-auth",
    "restart-in-progress", "restart-failed", "rules-unavailable",
]  # fmt: skip


class ToolgateError(Exception):
    """The base of all errors of this package."""


class Refused(ToolgateError):
    """The component refuses a question; `problem` is the error as the WIT has it, if there is one."""

    def __init__(self, message: str, problem: Any = None) -> None:
        super().__init__(message)
        self.problem = problem


class ComponentCrashed(ToolgateError):
    """The component trapped or exceeded a limit on a question; the next question gets a new instance."""


class SettingsError(ToolgateError):
    """The settings of a file cannot be read."""


class Failed(ToolgateError):
    """An operation on a server failed, in the terms of the WIT.

    Say `sent=False` only if the server cannot have acted on the request: no whole request reached it, or it turned the
    request away (HTTP 401, 403 with a challenge, 429, and 400 or 404 to a request with a session). A server raises it from `open`, `tools` and `call`. `detail` is the text of `connect`, `protocol` and the like, the
    exit code of `exited`, an `HttpFailure` or an `RpcFailure`.
    """

    def __init__(self, kind: FailureKind, detail: Any = None, sent: bool = True) -> None:
        super().__init__(kind if detail is None else f"{kind}: {detail}")
        self.kind, self.detail, self.sent = kind, detail, sent

    @property
    def failure(self) -> Any:
        """The failure as the component gets it."""
        if self.kind in ("cancelled", "timeout", "closed", "restart-in-progress"):
            return self.kind
        has_text = self.kind not in ("exited", "http", "rpc")
        return Case(self.kind, str(self.detail or "no reason given") if has_text else self.detail)
