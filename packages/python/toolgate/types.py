"""The types of the contract, written by `generate.py` from the WIT: do not edit.

A record is a class with keyword arguments. An enum is a string. A variant is a string if its case has no value, and
`Case(name, value)` if it has one. JSON is a text. A field that the WIT makes optional is `None` if you leave it out, and
a list is empty.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from toolgate.records import Case, Record, fresh
from toolgate.settings_file import SettingsFile

U16 = Annotated[int, range(1 << 16)]
U32 = Annotated[int, range(1 << 32)]
U64 = Annotated[int, range(1 << 64)]
S32 = Annotated[int, range(-1 << 31, 1 << 31)]
S64 = Annotated[int, range(-1 << 63, 1 << 63)]

Json = str
"""The text of one JSON value."""

Trace = list[str]
"""Short notes on how a decision was made, in order."""

Phase = Literal[
    "not-sent",
    "sent",
]
"""How far a request got before it failed.

- `"not-sent"`: The server cannot have acted on the request: no whole request reached it, or it turned the request away unread.
- `"sent"`: The server may have acted on the request.
"""

Stage = Literal[
    "empty",
    "json",
    "json-value",
    "json-repaired",
    "yaml",
    "key-value",
    "raw",
]
"""The reading that succeeded first.

- `"empty"`: The text is only white space: no arguments.
- `"json"`: A JSON object.
- `"json-value"`: Another JSON value, placed in `input` or in the one property that the schema has for it.
- `"json-repaired"`: JSON that needed repairs.
- `"yaml"`: A YAML mapping that contains a list or mapping, or a block of text for a property that the schema names.
- `"key-value"`: Pairs of `key: value` or `key=value`.
- `"raw"`: The text itself, placed in `input` or in the one string property that the schema requires.
"""

NoteKind = Literal[
    "repair",
    "coercion",
    "problem",
]
"""The kind of a note.

- `"repair"`: The text was repaired so that it could be read.
- `"coercion"`: A value was converted to the type that the schema asks for.
- `"problem"`: The arguments do not satisfy the schema.
"""

NameProblem = Literal[
    "invalid-name",
    "unknown-server",
    "unknown-tool",
    "ambiguous",
]
"""What is wrong with a name.

- `"invalid-name"`: The name has no form that could mean a tool.
- `"unknown-server"`: The name refers to a server that does not exist.
- `"unknown-tool"`: The name refers to a tool that its server does not have.
- `"ambiguous"`: The name matches several tools.
"""

Target = Literal[
    "mcp",
    "anthropic",
    "openai",
    "gemini",
    "cursor",
]
"""The provider or client that reads the names and schemas.

- `"mcp"`: Any MCP client: 1–128 of `A-Za-z0-9_.-`.
- `"anthropic"`: Anthropic's API: 1–128 of `a-zA-Z0-9_-`.
- `"openai"`: OpenAI's API, and clients with its limits: 1–64 of `a-zA-Z0-9_-`.
- `"gemini"`: Gemini's API: 1–64 of `a-zA-Z0-9_.-`, a letter or `_` first.
- `"cursor"`: Cursor: 1–60 of `a-zA-Z0-9_`.
"""

Change = Literal[
    "added",
    "removed",
    "description",
    "schema",
    "annotations",
]
"""A kind of difference between two tool lists of a server.

- `"added"`: The tool is new.
- `"removed"`: The tool was removed.
- `"description"`: The description changed.
- `"schema"`: The schema changed.
- `"annotations"`: The annotations changed.
"""

DestructivePolicy = Literal[
    "allow",
    "ask",
    "deny",
]
"""What happens to tools that may delete or overwrite.

- `"allow"`: They are treated like any other tool.
- `"ask"`: A person must approve each call.
- `"deny"`: They are neither listed nor callable.
"""

Verdict = Literal[
    "allow",
    "ask",
    "deny",
]
"""Whether a tool may be used.

- `"allow"`: The tool is listed and callable.
- `"ask"`: The tool is listed, and a person must approve each call.
- `"deny"`: The tool is neither listed nor callable.
"""

RuleList = Literal[
    "allow",
    "deny",
    "ask",
    "tools",
    "selection",
    "capabilities",
]
"""The list of a policy that a pattern is in.

- `"allow"`: The server's `allow`.
- `"deny"`: The server's `deny`.
- `"ask"`: The server's `ask`.
- `"tools"`: The server's rules for single tools.
- `"selection"`: The server's tools in the selection.
- `"capabilities"`: The capabilities of the form `tool:server/tool`.
"""

LifecycleState = Literal[
    "disabled",
    "dormant",
    "connecting",
    "ready",
    "degraded",
    "restarting",
    "failed",
    "needs-auth",
]
"""The state of a server.

- `"disabled"`: Disabled by the configuration or by an operator.
- `"dormant"`: Not started, because no caller needs it.
- `"connecting"`: Starting for the first time; callers wait.
- `"ready"`: Up and answering.
- `"degraded"`: Possibly broken: a call timed out or a health check failed, and a probe is running.
- `"restarting"`: Lost and being restarted; callers wait for the attempt.
- `"failed"`: Down: callers fail at once while attempts continue in the background.
- `"needs-auth"`: Waiting for authorization.
"""

CallForm = Literal[
    "react",
    "python",
    "json",
    "open-ai",
    "anthropic",
    "tool-call-tag",
    "function-tag",
    "invoke",
    "tool-calls-mark",
    "bar-mark",
    "python-tag",
    "tool-code",
]
"""How a call is written.

- `"react"`: `Action: f` and `Action Input: …` on lines of their own.
- `"python"`: `f(a=1)`
- `"json"`: A JSON object that names a tool and its arguments.
- `"open-ai"`: `{"function": {"name": "f", "arguments": "…"}}`, alone or in `tool_calls`.
- `"anthropic"`: `{"type": "tool_use", "name": "f", "input": {…}}`
- `"tool-call-tag"`: A call in the tag `<tool_call>`, or in one that means the same.
- `"function-tag"`: `<function=f><parameter=a>1</parameter></function>`, or with JSON in it.
- `"invoke"`: `<invoke name="f"><parameter name="a">1</parameter></invoke>`
- `"tool-calls-mark"`: A call after `[TOOL_CALLS]`.
- `"bar-mark"`: A call after a mark between bars, such as `<|tool_call|>`.
- `"python-tag"`: A call after `<|python_tag|>`.
- `"tool-code"`: A call in a `tool_code` tag or code fence.
"""

Standing = Literal[
    "own-line",
    "fenced",
    "marked",
    "inline",
    "quoted",
]
"""How a call stands in its text. In the first three ways it stands for itself.

- `"own-line"`: On lines of its own.
- `"fenced"`: In a code fence, on lines of its own.
- `"marked"`: In tags, after a mark or under a label, with nothing else on its lines.
- `"inline"`: In a sentence, or beside other words: the text may only mention it.
- `"quoted"`: In a quotation: between quotation marks or backticks in a sentence, after `>`, or in an element such as `<blockquote>`.
"""

Action = Literal[
    "surface",
    "retry-same-session",
    "retry-new-session",
    "reauthenticate",
    "outcome-unknown",
]
"""What to do about a failure.

- `"surface"`: Report the failure to the caller.
- `"retry-same-session"`: Send the request again on the same session.
- `"retry-new-session"`: Open a new session and send the request again.
- `"reauthenticate"`: Get a new authorization and send the request again.
- `"outcome-unknown"`: Tell the caller that it is unknown whether the tool ran.
"""

RetryPolicy = Literal[
    "safe",
    "always",
    "never",
]
"""Which operations may be repeated.

- `"safe"`: Operations that cannot have run, and operations that are safe to repeat.
- `"always"`: All operations.
- `"never"`: No operations.
"""

LimitScope = Literal[
    "principal",
    "everybody",
]
"""Whose calls are counted together.

- `"principal"`: Those of each principal.
- `"everybody"`: Those of everybody.
"""

KnownValue = tuple[U64, U64]
"""The digest of a value that an agent knows: the first half of the SHA-256 of its kind, a zero byte and its text."""

ResultForm = Literal[
    "text",
    "pass-through",
]
"""What happens to a result.

- `"text"`: The text is extracted for the model and cut to size.
- `"pass-through"`: The caller gets the result as the server wrote it; it is read only to mask or cut it.
"""

Code = Literal[
    "ok",
    "tool-error",
    "invalid-name",
    "unknown-server",
    "unknown-tool",
    "not-allowed",
    "declined",
    "invalid-arguments",
    "server-unavailable",
    "restart-in-progress",
    "restart-failed",
    "needs-auth",
    "rpc-error",
    "timeout",
    "cancelled",
    "queue-full",
    "outcome-unknown",
    "result-too-large",
    "masking-failed",
    "internal",
]
"""How a call ended.

- `"ok"`: The tool succeeded.
- `"tool-error"`: The tool reported an error.
- `"invalid-name"`: The name has no valid form, or matches several tools.
- `"unknown-server"`: No server has this id.
- `"unknown-tool"`: The server has no tool of this name.
- `"not-allowed"`: The rules deny the tool, or the call.
- `"declined"`: The call needs approval, and the person declined or could not be asked.
- `"invalid-arguments"`: The arguments do not satisfy the schema, or are too large.
- `"server-unavailable"`: The server cannot be reached.
- `"restart-in-progress"`: The server is being restarted.
- `"restart-failed"`: The server could not be restarted.
- `"needs-auth"`: The server requires authorization.
- `"rpc-error"`: The server answered with a JSON-RPC error.
- `"timeout"`: No response in time.
- `"cancelled"`: The caller cancelled.
- `"queue-full"`: Too many calls are waiting.
- `"outcome-unknown"`: It is unknown whether the tool ran.
- `"result-too-large"`: The result is too large to be read.
- `"masking-failed"`: The result could not be masked.
- `"internal"`: A bug in this component or in its host.
"""


class ToolRef(Record):
    """One tool of one server."""

    server: str
    """The id of the server, as configured."""
    tool: str
    """The name of the tool, as the server lists it."""


class Annotations(Record):
    """What a tool declares about itself, or what the configuration declares about it; `none` means no statement."""

    read_only: Union[bool, None] = None
    """The tool changes nothing (`readOnlyHint`)."""
    destructive: Union[bool, None] = None
    """The tool may delete or overwrite (`destructiveHint`)."""
    idempotent: Union[bool, None] = None
    """Calling the tool twice has the same effect as calling it once (`idempotentHint`)."""
    open_world: Union[bool, None] = None
    """The tool reaches beyond a closed environment (`openWorldHint`)."""


class Tool(Record):
    """A tool as its server lists it."""

    name: str
    """The name of the tool on its server."""
    description: Union[str, None] = None
    """The description, for the model."""
    input_schema: Union[Json, None] = None
    """The JSON Schema of the tool's arguments."""
    annotations: Annotations = fresh(lambda: Annotations())
    """The annotations that the server gives."""


class HttpFailure(Record):
    """An HTTP response that is not an MCP response."""

    status: U16
    """The status code."""
    session: bool
    """The request carried a session id."""
    challenge: bool
    """The response carried an authentication challenge."""
    retry_after_ms: Union[U64, None] = None
    """The response's Retry-After, in milliseconds."""


class RpcFailure(Record):
    """A JSON-RPC error."""

    code: S64
    """The error code."""
    message: str
    """The error text: it is shown to the model, and no decision depends on it."""


class WaitRange(Record):
    """A time range from which the host draws."""

    min_ms: U64
    """The shortest wait, in milliseconds."""
    max_ms: U64
    """The longest wait, in milliseconds."""


class Note(Record):
    """A remark on how the text was read."""

    kind: NoteKind
    """The kind of the note."""
    text: str
    """The note itself, as a short sentence."""


class Parsed(Record):
    """The arguments that were read from the text."""

    arguments: Json
    """A JSON object."""
    stage: Stage
    """The reading that succeeded."""
    notes: list[Note] = fresh(lambda: [])
    """Notes on repairs, then coercions, then problems."""


class ToolNameError(Record):
    """The reason why a name leads to no tool."""

    problem: NameProblem
    """The kind of problem."""
    message: str
    """A message that tells the model how to correct the name."""


class Audience(Record):
    """A target, and the prefix that its client puts before every name."""

    target: Target
    """The target whose limits apply."""
    prefix: str
    """The client's prefix, which counts against the length limit."""


class Candidate(Record):
    """A tool that needs a name."""

    tool: ToolRef
    """The tool."""
    schema: Union[Json, None] = None
    """The schema of its arguments."""


class FittedTool(Record):
    """A tool with a name and a schema that the audience accepts."""

    name: str
    """The name to show."""
    tool: ToolRef
    """The tool that the name means."""
    schema: Json
    """The schema to show."""


class Offered(Record):
    """The tools of one server."""

    server: str
    """The id of the server."""
    tools: list[Tool] = fresh(lambda: [])
    """The tools from its `tools/list`."""


class ExposedTool(Record):
    """A tool as the model sees it."""

    name: str
    """The name that the model sees and calls."""
    tool: ToolRef
    """The tool that the name means."""
    description: Union[str, None] = None
    """The description of the tool."""
    input_schema: Union[Json, None] = None
    """The schema of its arguments, adapted to the provider if the naming style is `fitted`."""
    annotations: Annotations = fresh(lambda: Annotations())
    """The tool's annotations, with overrides from the configuration."""


class Route(Record):
    """The tool that a name leads to."""

    tool: ToolRef
    """The tool that the name means."""
    trace: Trace = fresh(lambda: [])
    """How the tool was found."""


class ToolChange(Record):
    """One difference between two tool lists."""

    tool: str
    """The name of the tool."""
    change: Change
    """What changed."""


class ToolNote(Record):
    """A note about one tool, for the model."""

    name: str
    """The name under which the model sees the tool."""
    text: str
    """The note."""


class ServerNotes(Record):
    """What the model is told about one server."""

    server: str
    """The id of the server."""
    instructions: Union[str, None] = None
    """The server's own instructions."""
    prompts: list[str] = fresh(lambda: [])
    """The descriptions of its prompts."""
    tools: list[ToolNote] = fresh(lambda: [])
    """Notes about its tools."""


class FailedServer(Record):
    """A server that is currently unavailable."""

    server: str
    """The id of the server."""
    reason: str
    """The reason, as a short sentence."""


class Extracted(Record):
    """The parts of a `tools/call` result."""

    text: str
    """The text; each block that is not text becomes one line."""
    blocks: list[Json] = fresh(lambda: [])
    """The content blocks, as the server wrote them."""
    structured: Union[Json, None] = None
    """The structured content, as the server wrote it."""
    is_error: bool
    """The tool reports that it failed."""


class Rules(Record):
    """Which tools of a server exist for everyone."""

    allow: Union[list[str], None] = None
    """Names and globs to allow; `none` allows every tool, an empty list allows none."""
    deny: list[str] = fresh(lambda: [])
    """Names and globs to deny, even if `allow` lists them; `any` denies every tool."""


class ToolRules(Record):
    """Configured rules for one tool."""

    tool: str
    """The name of the tool on its server."""
    annotations: Annotations = fresh(lambda: Annotations())
    """Overrides for the annotations that the server gives."""
    requires: list[str] = fresh(lambda: [])
    """Capabilities that the tool requires; the principal needs all of them."""


class ServerRules(Record):
    """Configured rules for one server."""

    id: str
    """The id of the server."""
    rules: Rules = fresh(lambda: Rules())
    """Which of its tools exist."""
    ask: list[str] = fresh(lambda: [])
    """Names and globs of tools that need approval; `any` matches every tool."""
    requires: list[str] = fresh(lambda: [])
    """Capabilities that every tool of the server requires; the principal needs all of them."""
    tools: list[ToolRules] = fresh(lambda: [])
    """Rules for single tools."""


class SelectedServer(Record):
    """A server that a gate may use."""

    id: str
    """The id of the server."""
    tools: list[str] = fresh(lambda: [])
    """Names and globs of its tools that the gate may use; empty means all."""


class Policy(Record):
    """All rules of one gate."""

    servers: list[ServerRules] = fresh(lambda: [])
    """The configured servers, in the order in which they are shown."""
    selection: Union[list[SelectedServer], None] = None
    """The servers that this gate may use; `none` means all."""
    choice: Union[list[SelectedServer], None] = None
    """The servers that the agent chose for itself; `none` means all. A tool must be in both lists, so a choice never
    adds anything."""
    read_only: bool
    """Whether only tools that change nothing may be used."""
    destructive: DestructivePolicy
    """What happens to destructive tools."""
    capabilities: Union[list[str], None] = None
    """The principal's capabilities; `none` means that there is no principal."""


class AmbiguousGrant(Record):
    """A capability that could mean several things."""

    grant: str
    """The capability, as written."""
    meanings: list[str] = fresh(lambda: [])
    """Its possible meanings, each in an unambiguous form."""


class Decision(Record):
    """A verdict and the rules that led to it; the last note is the deciding one."""

    verdict: Verdict
    """The verdict."""
    trace: Trace = fresh(lambda: [])
    """The rules, in the order in which they were checked."""


class Unmatched(Record):
    """A pattern or name in a policy that matches no tool and therefore does nothing."""

    list: RuleList
    """The list that contains the pattern."""
    pattern: str
    """The pattern, as written."""


class LifecycleServer(Record):
    """Everything that the state machine remembers about a server."""

    state: LifecycleState
    """The current state."""
    users: U32
    """How many callers use the server."""
    restarts: U32
    """How many restarts were scheduled since the server last proved stable."""
    attempting: bool
    """Whether a connection attempt is running."""
    since_ms: U64
    """When the server came up or, while it is starting, when it was first needed, in milliseconds."""
    retry_at_ms: Union[U64, None] = None
    """When to try to connect again."""
    probe_at_ms: Union[U64, None] = None
    """When to run the next health check."""
    idle_at_ms: Union[U64, None] = None
    """When to stop the server because it is idle."""
    proven: bool
    """Whether the last start succeeded."""
    lost: bool
    """Whether the server was lost while it was needed, and has not come up since."""


class LifecyclePolicy(Record):
    """The settings of the state machine."""

    eager: bool
    """Whether to start without a caller and never stop when idle."""
    acquire_limit_ms: U64
    """How long callers wait for the first start."""
    restart_delays_ms: list[U64] = fresh(lambda: [])
    """The delays before restarts; the last one repeats."""
    health_interval_ms: U64
    """The time between two health checks; zero means none."""
    idle_timeout_ms: U64
    """How long an unused server is kept running."""
    one_shot: bool
    """Whether a failed attempt is the last one, because the only caller gets the error."""
    prove: bool
    """Whether to start without a caller until a start succeeds, so that the server can count as ready."""


class LifecycleTransition(Record):
    """The outcome of one step."""

    server: LifecycleServer
    """The new state to remember."""
    commands: list[LifecycleCommand] = fresh(lambda: [])
    """What to do, in this order; without a `wait-until`, no timer is needed."""


class CustomMask(Record):
    """A custom pattern."""

    pattern: str
    """A regular expression; if it has a group named `value`, only that group is replaced."""
    replacement: str
    """The replacement, taken literally."""


class Masks(Record):
    """What to mask."""

    groups: list[str] = fresh(lambda: [])
    """The names of built-in groups."""
    patterns: list[str] = fresh(lambda: [])
    """The names of built-in patterns."""
    custom: list[CustomMask] = fresh(lambda: [])
    """Custom patterns."""


class BadPattern(Record):
    """A pattern that is not valid."""

    pattern: str
    """The pattern."""
    reason: str
    """What is wrong with the pattern."""


class UnknownName(Record):
    """A group or pattern name that does not exist."""

    name: str
    """The name as given."""
    known: list[str] = fresh(lambda: [])
    """The names that exist."""


class KnownTool(Record):
    """A tool that calls may mean."""

    name: str
    """The name of the tool, as the model knows it."""
    input_schema: Union[Json, None] = None
    """The schema of its arguments: it names positions and decides the types of texts."""


class ReadCall(Record):
    """A call in a text."""

    name: str
    """The name of the tool as written, without `functions.` before it, or that of the only known tool which it can
    mean: in other case, with blanks or backticks, or with `-` for `_`."""
    arguments: Json
    """The arguments, as a JSON object."""
    form: CallForm
    """How the call is written."""
    standing: Standing
    """How the call stands in the text."""
    start: U64
    """The byte of the text at which the call begins."""
    end: U64
    """The byte of the text at which the call ends."""


class AmbiguousCall(Record):
    """A call with two readings that differ in meaning."""

    at: U64
    """The byte at which the call begins."""
    one: str
    """One reading, as the beginning of its JSON."""
    other: str
    """The other reading, as the beginning of its JSON."""


class UnnamedArgument(Record):
    """An argument without a name, whose position no schema names."""

    at: U64
    """The byte at which the call begins."""
    tool: str
    """The name of the tool."""
    position: U64
    """The position of the argument, counted from one."""


class RecoveryContext(Record):
    """What is known about the operation that failed."""

    phase: Phase
    """How far the operation got."""
    attempt: U32
    """The number of the attempt, from 1."""
    read_only: bool
    """The tool declares that it changes nothing."""
    idempotent: bool
    """The tool declares that it is safe to repeat."""
    retry: RetryPolicy
    """Which operations may be repeated."""


class RecoveryDecision(Record):
    """An action and the reasons for it."""

    action: Action
    """What to do."""
    trace: Trace = fresh(lambda: [])
    """The reasons."""


class CallLimit(Record):
    """How many calls may fit a rule in a time before it has its effect."""

    calls: U32
    """The number of calls."""
    per_ms: U64
    """The time in milliseconds; it begins with the first call, and again with the first one after it."""
    by: LimitScope
    """Whose calls are counted together."""


class Rule(Record):
    """One rule."""

    name: str
    """The name, for traces and messages; no other rule of the gate has it."""
    tools: list[str]
    """The tools that it is for: names and globs of the form `server.tool`."""
    condition: Union[str, None] = None
    """The condition on a call, in CEL; without one, the rule fits every call of its tools."""
    effect: Effect
    """What happens to a call that fits."""
    limit: Union[CallLimit, None] = None
    """The number of calls that may fit before the rule has its effect; `none` means none."""
    because: Union[str, None] = None
    """The reason, for the model and the log."""


class ResultRule(Record):
    """What the results of some tools mean."""

    tools: str
    """The tools: a name or a glob of the form `server.tool`."""
    labels: list[str] = fresh(lambda: [])
    """The labels that an agent gets by a result."""
    trusted: bool
    """Whether an agent may use all values of a result."""
    trusted_fields: list[str] = fresh(lambda: [])
    """The members of a result whose values an agent may use, as paths such as `owner.mail`; lists are passed
    through."""


class RuleSet(Record):
    """All rules of a gate."""

    lists: list[list[Rule]] = fresh(lambda: [])
    """Lists of rules. Each list is looked at in order, up to a rule that allows the call; of all rules that fit, one
    that denies counts before one that asks."""
    results: list[ResultRule] = fresh(lambda: [])
    """What results mean. The labels of all entries that match a tool add up; the entry with its name says what is
    trusted, or else the one with the longest glob."""
    known: list[str] = fresh(lambda: [])
    """Values that every agent knows: whole ones, domains as `@example.com`, and URLs up to a slash."""


class RuleError(Record):
    """The reason why rules cannot be used."""

    rule: str
    """The name of the rule; empty for an entry of `results`."""
    at: U32
    """The byte of its condition at which it goes wrong; zero if its tools are wrong."""
    message: str
    """What is wrong there."""


class Caller(Record):
    """Who makes a call."""

    principal: Union[str, None] = None
    """The principal, if there is one."""
    groups: list[str] = fresh(lambda: [])
    """The groups of its token."""
    admin: bool
    """Whether it is an administrator."""
    client: str
    """The name of the client program; empty if it is not known."""


class AgentContext(Record):
    """What an agent has seen, and what it may send."""

    labels: list[str] = fresh(lambda: [])
    """The labels of what it has seen. `written:SERVER` is one of an agent with the label `untrusted` that sent the
    server text of its own since, in arguments, answers to its questions or otherwise: trusted results of this server
    teach nothing any more, but their trusted fields do."""
    known: list[KnownValue] = fresh(lambda: [])
    """The values that it knows, the least recently used first."""


class Circumstances(Record):
    """What surrounds a call."""

    caller: Caller
    """Who makes it."""
    now_ms: Union[U64, None] = None
    """The time, in milliseconds since 1970."""
    context: AgentContext = fresh(lambda: AgentContext())
    """What the agent has seen before."""


class CallCount(Record):
    """How often calls fitted a rule with a limit."""

    calls: U32
    """The number of calls in the time of the limit, with this one."""
    ends_in_ms: U64
    """When that time ends, in milliseconds from now."""


class Outlook(Record):
    """A rule that may restrict a tool, whatever its arguments are or depending on them."""

    denied: Union[str, None] = None
    """Whether every call is refused, by the rule of this name."""
    asked: Union[str, None] = None
    """Whether a person must approve every call, by the rule of this name."""
    depends: list[str] = fresh(lambda: [])
    """The names of the rules that restrict some calls: it depends on the arguments, or on how many calls there were."""
    trace: list[str] = fresh(lambda: [])
    """Which rules were looked at, and why each fits or does not."""


class MissingArgument(Record):
    """An argument that a condition reads and a tool does not have."""

    tool: str
    """The tool, as `server.tool`."""
    argument: str
    """The argument, as `args.name`."""


class RuleNote(Record):
    """A probable mistake in a rule."""

    rule: str
    """The name of the rule; empty for an entry of `results`."""
    at: U32
    """The byte of its condition at which the mistake is."""
    problem: RuleProblem
    """What is wrong."""


class SearchSettings(Record):
    """When tools are found by searching instead of being listed."""

    above_tools: U32
    """The number of tools above which they are not listed."""
    above_tokens: U64
    """The number of tokens that all definitions take together above which they are not listed."""
    always: list[str] = fresh(lambda: [])
    """The tools that are listed anyway: names and globs of the form `server.tool`."""
    style: Union[NamingStyle, None] = None
    """The naming style of the tools that are found; `none` means that they have their own names."""


class SearchHit(Record):
    """A tool that a query finds."""

    tool: ToolRef
    """The tool."""
    score: float
    """How well it fits: the best has the highest score."""
    why: str
    """Why it was found, in a few words."""


class FoundTool(Record):
    """A tool that a gate finds."""

    tool: ExposedTool
    """The tool as the model sees it."""
    score: float
    """How well it fits: the best has the highest score."""
    why: str
    """Why it was found, in a few words."""


class ServerSettings(Record):
    """Settings for the results of one server."""

    server: str
    """The id of the server."""
    masks: Masks = fresh(lambda: Masks())
    """Masks that apply in addition to those for every server."""
    summarize_above_tokens: Union[U64, None] = None
    """The number of tokens above which a text is summarized; `none` means as for every server."""
    structured_text: bool
    """Whether a result without structured content gets it from its text, if that is JSON: an object or a list, or
    only an object if results are passed through."""


class Settings(SettingsFile):
    """The settings of a gate."""

    policy: Policy
    """The rules for what may be seen and called."""
    style: NamingStyle
    """The naming style of the tools that the model sees."""
    bare_names: bool
    """Whether a tool's own name routes if only one server has it."""
    describe_server: bool
    """Whether descriptions begin with `[MCP:server]`."""
    check_arguments: bool
    """Whether arguments that do not satisfy the schema are refused."""
    retry: RetryPolicy
    """Which calls may be repeated."""
    masks: Masks = fresh(lambda: Masks())
    """The masks for every result."""
    server_settings: list[ServerSettings] = fresh(lambda: [])
    """What differs for single servers."""
    form: ResultForm
    """What happens to a result."""
    max_result_bytes: U64
    """The maximum size of a result's text in bytes, with the texts of embedded resources; zero means no limit."""
    spill: bool
    """Whether the host saves the full text before it is cut or summarized."""
    summarize_above_tokens: Union[U64, None] = None
    """The number of tokens (about four bytes each) above which a text is summarized."""
    ask_max_bytes: U64
    """The maximum size in bytes of arguments that a person is asked about; if approval is needed, larger calls are
    declined."""
    rules: RuleSet = fresh(lambda: RuleSet())
    """The rules that see arguments, people and what happened before."""
    search: Union[SearchSettings, None] = None
    """When tools are found by searching instead of being listed; `none` means never. If there are settings, calls of
    `find_tools` and `call_tool` are answered by the gate itself."""


class ToolCall(Record):
    """A call, as the model wrote it."""

    id: str
    """The id that the caller gave to the call."""
    name: str
    """The name as the model wrote it."""
    arguments: str
    """The arguments as the model wrote them."""


class Request(Record):
    """A request to a server: `tools/call` with this tool's own name and these arguments."""

    tool: ToolRef
    """The tool to call."""
    arguments: Json
    """The arguments, as one JSON object."""
    forward: Union[Forward, None] = None
    """Whether the host may forward the response without reading it; `none` means that it must be read."""
    learned: Union[AgentContext, None] = None
    """What to add to the agent's context before the request is sent: a server may say something before it answers."""


class Forward(Record):
    """How a call ends if its response is forwarded without being read."""

    up_to: U64
    """The maximum number of bytes of text in the response; text in JSON is never shorter, and structured content
    counts as written."""
    trace: Trace = fresh(lambda: [])
    """The complete trace of the call if the response is no error: the call is then done with the code `ok`, and the
    host need not report `forwarded`."""


class Question(Record):
    """A question to a person."""

    tool: ToolRef
    """The tool that would be called."""
    arguments: Json
    """The arguments, exactly as they will be sent; show them to the person whole and unmasked."""
    reason: str
    """The rule that requires approval."""


class Oversize(Record):
    """A text that is too long for the result."""

    tool: ToolRef
    """The tool that returned the text."""
    text: str
    """The full text with the texts of embedded resources, masked."""
    spill: bool
    """Whether to save the full text."""
    summarize: bool
    """Whether to summarize the text."""


class ToolResult(Record):
    """The outcome of a call; a failed call also has a result, for the model to read."""

    call_id: str
    """The id that the caller gave to the call."""
    name: str
    """The name as the model wrote it."""
    tool: Union[ToolRef, None] = None
    """The tool that the name means, also if it is denied; if its server is not available, the only tool that the
    name could mean there."""
    text: str
    """The text for the model, masked and cut; empty if the result was forwarded or passed through."""
    content: list[Json] = fresh(lambda: [])
    """The content blocks, masked; empty if the result was forwarded or passed through."""
    structured: Union[Json, None] = None
    """The structured content, masked."""
    more: Union[Json, None] = None
    """All other members of the result, such as `_meta`, masked, as one object; `none` if there are none, or if the
    result was forwarded or passed through. If the call was refused, `toolgate/refusal` in `_meta` has the code as
    `code`, the name of the rule as `rule`, and when a limit lets calls through again as `retryAfterMs`."""
    answer: Union[Json, None] = None
    """The whole result as the server wrote it, masked and cut, if it is passed through."""
    is_error: bool
    """The call failed."""
    code: Code
    """How the call ended."""
    attempts: U32
    """How many times the request was sent."""
    truncated: bool
    """Whether a text was cut or summarized, or structured content was dropped."""
    clean: bool
    """Whether the masks looked at every part of the answer and found nothing, so that it may be stored as it is."""
    trace: Trace = fresh(lambda: [])
    """The trace of all decisions."""
    learned: Union[AgentContext, None] = None
    """What the result taught, to add to the agent's context before the caller gets the result; not if the agent
    wrote something to the server after the circumstances of the call were reported, so that it got the label
    `written:SERVER` then or would have got it once more."""


class Summary(Record):
    """What is known about a result that was forwarded without being read."""

    is_error: bool
    """Whether the result says `isError`."""


class Condensed(Record):
    """What the host did with a text that is too long; anything that was not requested is ignored."""

    kept: Union[str, None] = None
    """Where the full text is saved."""
    summary: Union[str, None] = None
    """A summary to use instead of the text; it is masked and cut as well."""


class FailedEvent(Record):
    """A failure, and how far the operation got."""

    failure: Failure
    """What failed."""
    phase: Phase
    """Whether the request had been sent."""


class Started(Record):
    """A call that has begun."""

    execution: Any
    """The running call."""
    directive: Directive
    """The first directive."""

Failure = Union[
    Literal["cancelled"],
    Literal["timeout"],
    Case[Literal["connect"], str],
    Literal["closed"],
    Case[Literal["exited"], Union[S32, None]],
    Case[Literal["http"], HttpFailure],
    Case[Literal["rpc"], RpcFailure],
    Case[Literal["protocol"], str],
    Case[Literal["queue-full"], str],
    Case[Literal["needs-auth"], str],
    Literal["restart-in-progress"],
    Case[Literal["restart-failed"], str],
    Case[Literal["rules-unavailable"], str],
]
"""How an operation on a server failed.

- `"cancelled"`: The caller cancelled.
- `"timeout"`: No response in time.
- `"connect"`: No connection: refused, unknown host, or a program that does not start; the text says why.
- `"closed"`: The connection closed.
- `"exited"`: The server's process ended, with this exit code unless it was killed.
- `"http"`: The server answered with an HTTP error.
- `"rpc"`: The server answered with a JSON-RPC error.
- `"protocol"`: The server violated the protocol; the text says how.
- `"queue-full"`: A queue of the server is full and nothing was sent; the text says which queue.
- `"needs-auth"`: The server requires an authorization that the host does not have; the text says why.
- `"restart-in-progress"`: The server is being restarted, and the caller's time limit passed first.
- `"restart-failed"`: The server could not be restarted; the text says why.
- `"rules-unavailable"`: The host cannot find out what the rules ask for, such as how many calls there were, so nothing was sent; the text says why.
"""

Refusal = Union[
    Case[Literal["too-large"], U64],
    Case[Literal["too-many-values"], U64],
    Case[Literal["too-deep"], U64],
]
"""The limit that the text exceeds; a text is never refused for its form.

- `"too-large"`: More bytes than this.
- `"too-many-values"`: More JSON values than this.
- `"too-deep"`: Nested deeper than this many levels.
"""

NamingStyle = Union[
    Literal["dot"],
    Literal["double-underscore"],
    Literal["mcp-prefix"],
    Literal["mcp-underscore"],
    Case[Literal["fitted"], Audience],
]
"""How tool names are written.

- `"dot"`: `server.tool`
- `"double-underscore"`: `server__tool`
- `"mcp-prefix"`: `mcp__server__tool`
- `"mcp-underscore"`: `mcp_server_tool`
- `"fitted"`: `server__tool`, adapted to an audience; schemas are adapted as well.
"""

FitError = Union[
    Case[Literal["prefix-too-long"], U32],
    Case[Literal["bad-schema"], ToolRef],
]
"""The reason why no names can be made.

- `"prefix-too-long"`: The prefix leaves fewer than this many characters, the minimum for a name.
- `"bad-schema"`: The schema of this tool is not JSON.
"""

Unreadable = Union[
    Case[Literal["malformed"], str],
    Case[Literal["too-large"], U64],
    Case[Literal["too-many-values"], U64],
    Case[Literal["too-deep"], U64],
]
"""The reason why a result cannot be read.

- `"malformed"`: The result is not JSON, or not an object; the text says why.
- `"too-large"`: More bytes than this.
- `"too-many-values"`: More JSON values than this.
- `"too-deep"`: Nested deeper than this many levels.
"""

PolicyError = Union[
    Literal["empty-selection"],
    Case[Literal["unknown-server"], str],
    Case[Literal["duplicate-server"], str],
    Case[Literal["bad-server-id"], str],
    Case[Literal["ambiguous-grant"], AmbiguousGrant],
    Case[Literal["bad-glob"], str],
]
"""The reason why a policy is not valid.

- `"empty-selection"`: The selection names no server.
- `"unknown-server"`: The selection names this server, but it is not configured.
- `"duplicate-server"`: Two servers have this id.
- `"bad-server-id"`: This server id is not of the form `[A-Za-z0-9_-]+`.
- `"ambiguous-grant"`: A capability is ambiguous in this configuration.
- `"bad-glob"`: A name or glob of a tool can never match, because it is written in another syntax; the text says why. A list that restricts tools would leave them open.
"""

LifecycleEvent = Union[
    Literal["enabled"],
    Literal["disabled"],
    Literal["wanted"],
    Literal["released"],
    Literal["connected"],
    Case[Literal["failed"], Failure],
    Literal["exited"],
    Literal["probe-ok"],
    Literal["probe-failed"],
    Literal["call-timed-out"],
    Literal["authenticated"],
    Literal["tick"],
]
"""What happened to a server.

- `"enabled"`: The server was enabled.
- `"disabled"`: The server was disabled.
- `"wanted"`: A caller needs the server.
- `"released"`: A caller no longer needs the server.
- `"connected"`: The connection attempt succeeded.
- `"failed"`: The connection attempt failed.
- `"exited"`: The connection or the process ended.
- `"probe-ok"`: A probe succeeded.
- `"probe-failed"`: A probe failed.
- `"call-timed-out"`: A call timed out.
- `"authenticated"`: Authorization was granted.
- `"tick"`: The time from `wait-until` has come.
"""

LifecycleCommand = Union[
    Literal["connect"],
    Literal["probe"],
    Literal["stop"],
    Case[Literal["wait-until"], WaitRange],
]
"""What the host must do. The host reports one `connected` or `failed` for each `connect` and one result for each
`probe`, but neither after a `stop`, and it reports `exited` only for the newest connection.

- `"connect"`: Start a connection attempt and report how it ended.
- `"probe"`: Probe the server and report the result.
- `"stop"`: End the connection or the attempt, and the process.
- `"wait-until"`: Report a tick at a time from this range; this replaces the previous timer. Both ends are points in time, in milliseconds of the clock that `now-ms` comes from.
"""

MaskError = Union[
    Case[Literal["unknown-group"], UnknownName],
    Case[Literal["unknown-pattern"], UnknownName],
    Case[Literal["bad-pattern"], BadPattern],
]
"""The reason why masks are not valid.

- `"unknown-group"`: There is no such group.
- `"unknown-pattern"`: There is no such pattern.
- `"bad-pattern"`: A custom pattern does not compile, or matches the empty text.
"""

ReadingError = Union[
    Case[Literal["too-large"], U64],
    Case[Literal["too-many-values"], U64],
    Case[Literal["too-deep"], U64],
    Case[Literal["ambiguous"], AmbiguousCall],
    Case[Literal["unnamed"], UnnamedArgument],
    Case[Literal["incomplete"], U64],
    Case[Literal["malformed"], U64],
    Case[Literal["tangled"], U64],
]
"""The reason why a text cannot be read.

- `"too-large"`: The text has more bytes than this.
- `"too-many-values"`: One call has more JSON values than this.
- `"too-deep"`: One call is nested deeper than this many levels.
- `"ambiguous"`: A call has two readings.
- `"unnamed"`: A call has an argument without a name.
- `"incomplete"`: The text ends inside the call that begins at this byte.
- `"malformed"`: The arguments of the call that begins at this byte are broken JSON.
- `"tangled"`: The text has so many beginnings of calls without an end, up to this byte, that reading it would take too long.
"""

Effect = Union[
    Literal["deny"],
    Literal["ask"],
    Literal["allow"],
    Case[Literal["label"], list[str]],
]
"""What a rule does with a call that it fits.

- `"deny"`: The call is refused.
- `"ask"`: A person must approve the call.
- `"allow"`: No rule after this one in its list is looked at.
- `"label"`: The agent gets these labels if the call is sent.
"""

RuleProblem = Union[
    Case[Literal["unmatched"], str],
    Case[Literal["missing-argument"], MissingArgument],
    Case[Literal["constant"], bool],
]
"""Something about a rule that is probably a mistake.

- `"unmatched"`: No tool has a name that this pattern of its matches.
- `"missing-argument"`: Its condition reads an argument that one of its tools does not have.
- `"constant"`: Its condition has this value for every call.
"""

SettingsError = Union[
    Case[Literal["policy"], PolicyError],
    Case[Literal["masks"], MaskError],
    Case[Literal["unknown-server"], str],
    Case[Literal["rules"], RuleError],
    Case[Literal["rule-tools"], RuleError],
]
"""The reason why a gate cannot be built.

- `"policy"`: The policy is not valid.
- `"masks"`: The masks are not valid.
- `"unknown-server"`: There are settings for this server, but it is not configured.
- `"rules"`: The condition of a rule is not valid.
- `"rule-tools"`: The tools of a rule, or of an entry of `results`, are not valid: no tool could have such a name, so that the rule would never apply.
"""

Directive = Union[
    Case[Literal["connect"], list[str]],
    Case[Literal["request"], Request],
    Case[Literal["reconnect"], str],
    Case[Literal["reauthenticate"], str],
    Case[Literal["wait"], WaitRange],
    Case[Literal["circumstances"], bool],
    Case[Literal["count"], list[str]],
    Case[Literal["ask"], Question],
    Case[Literal["condense"], Oversize],
    Case[Literal["done"], ToolResult],
]
"""What the host must do next.

- `"connect"`: Connect these servers and offer their tools, then report `connected` or `failed`.
- `"request"`: Send this request, then report `answered`, `forwarded` or `failed`.
- `"reconnect"`: Open a new session with this server, then report `reconnected` or `failed`.
- `"reauthenticate"`: Get a new authorization for this server, then report `authenticated` or `failed`.
- `"wait"`: Wait for a time from this range, then report `waited`.
- `"circumstances"`: Report the `circumstances` of the call, or `failed`; the values that the agent knows are needed only if this is true. It may come once more for them.
- `"count"`: Count the call for these rules, which have limits, then report `counted` or `failed`.
- `"ask"`: Ask a person, then report `approved` or `unasked`.
- `"condense"`: Save or summarize a text as requested, then report `condensed`, without the parts that failed.
- `"done"`: The call is done; this is its result.
"""

Event = Union[
    Literal["connected"],
    Case[Literal["answered"], Json],
    Case[Literal["forwarded"], Summary],
    Case[Literal["failed"], FailedEvent],
    Literal["reconnected"],
    Literal["authenticated"],
    Literal["waited"],
    Case[Literal["circumstances"], Circumstances],
    Case[Literal["counted"], list[CallCount]],
    Case[Literal["approved"], bool],
    Literal["unasked"],
    Case[Literal["condensed"], Condensed],
    Literal["cancelled"],
]
"""What the host reports after a directive.

- `"connected"`: The servers are connected, and their tools are offered.
- `"answered"`: The `result` member of the response.
- `"forwarded"`: The result was forwarded to the caller without being read.
- `"failed"`: The directive could not be carried out.
- `"reconnected"`: The new session is open.
- `"authenticated"`: The new authorization was obtained.
- `"waited"`: The wait is over.
- `"circumstances"`: Who calls, when, and what the agent has seen before.
- `"counted"`: How often calls fitted each of the rules, in the same order.
- `"approved"`: The person's answer, which holds for this call only.
- `"unasked"`: The person could not be asked.
- `"condensed"`: What was done with the text; `failed` means that nothing was.
- `"cancelled"`: The caller cancelled.
"""

OfferNote = Union[
    Case[Literal["changed"], ToolChange],
    Case[Literal["duplicate"], str],
    Case[Literal["unusable"], str],
    Case[Literal["ambiguous-grant"], AmbiguousGrant],
    Case[Literal["unknown-server"], str],
]
"""Something about a tool list that is worth logging.

- `"changed"`: A tool changed since the server's last list.
- `"duplicate"`: The server lists this tool twice; the first entry counts.
- `"unusable"`: The tool's name is empty or longer than 512 bytes, so the tool is ignored.
- `"ambiguous-grant"`: With these tools, a grant is ambiguous and grants nothing.
- `"unknown-server"`: No server with this id is configured, so the list is ignored.
"""

# For each function of the component: the types of its parameters, of its answer, and of its error.
FUNCTIONS: dict[str, tuple[list[Any], Any, Any]] = {
    "arguments#parse": ([str, Union[Json, None]], Parsed, Refusal),
    "backoff#restart-delay": ([U32, Union[list[U64], None]], U64, None),
    "backoff#spread": ([U64], WaitRange, None),
    "backoff#retry-wait": ([Union[U64, None]], WaitRange, None),
    "naming#normalize": ([str], str, None),
    "naming#split": ([str], ToolRef, ToolNameError),
    "naming#fit": ([list[Candidate], Audience], list[FittedTool], FitError),
    "catalog#[constructor]catalog": ([list[Offered], bool], Any, None),
    "catalog#[method]catalog.resolve": ([Any, str], Route, ToolNameError),
    "catalog#[method]catalog.tools": ([Any, NamingStyle], list[ExposedTool], None),
    "catalog#changes": ([list[Tool], list[Tool]], list[ToolChange], None),
    "catalog#instructions": ([list[ServerNotes], list[FailedServer]], str, None),
    "content#extract": ([Json], Extracted, Unreadable),
    "content#truncate": ([str, U64, str], str, None),
    "content#estimate-tokens": ([str], U64, None),
    "filtering#filter": ([Rules, list[str]], list[str], None),
    "filtering#decide": ([Policy, ToolRef, Annotations], Decision, PolicyError),
    "filtering#find-unmatched": ([Policy, str, list[str]], list[Unmatched], None),
    "lifecycle#default-policy": ([], LifecyclePolicy, None),
    "lifecycle#initial": ([bool], LifecycleServer, None),
    "lifecycle#step": ([LifecycleServer, LifecycleEvent, LifecyclePolicy, U64], LifecycleTransition, None),
    "lifecycle#counts-as-ready": ([LifecycleServer], bool, None),
    "masking#[constructor]masker": ([Masks], Any, MaskError),
    "masking#[method]masker.mask": ([Any, str], str, None),
    "masking#[method]masker.mask-json": ([Any, Json], Json, None),
    "masking#pattern-names": ([], list[str], None),
    "masking#group-names": ([], list[str], None),
    "reading#read-calls": ([str, list[KnownTool], bool], list[ReadCall], ReadingError),
    "recovery#classify": ([Failure, RecoveryContext], RecoveryDecision, None),
    "rules#known-values": ([list[str]], list[KnownValue], None),
    "search#find": ([list[Offered], list[str], U32], list[list[SearchHit]], None),
    "execution#[method]execution.next": ([Any, Event], Directive, None),
    "execution#[method]execution.trace": ([Any], Trace, None),
    "execution#[constructor]gate": ([Settings], Any, SettingsError),
    "execution#[method]gate.offer": ([Any, str, list[Tool]], list[OfferNote], None),
    "execution#[method]gate.withdraw": ([Any, str], None, None),
    "execution#[method]gate.tools": ([Any, NamingStyle, Union[Circumstances, None]], list[ExposedTool], None),
    "execution#[method]gate.search": ([Any, str, U32, Union[Circumstances, None]], list[FoundTool], None),
    "execution#[method]gate.selects": ([Any, str], bool, None),
    "execution#[method]gate.admits": ([Any, str], bool, None),
    "execution#[method]gate.foresee": ([Any, ToolRef, Circumstances], Outlook, None),
    "execution#[method]gate.check-rules": ([Any], list[RuleNote], None),
    "execution#[method]gate.begin": ([Any, ToolCall], Started, None),
    "execution#[method]gate.mask-json": ([Any, str, Json], Json, None),
    "execution#default-settings": ([list[str]], Settings, None),
}
