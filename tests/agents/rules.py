"""The configuration of the gateways, and what it leaves of the demo server to each principal."""

OWN = {"find_tools", "call_tool"}
FOR_LOCAL = OWN | {"demo__echo", "demo__add", "demo__picture", "demo__fail", "demo__forecast"}
FOR_TOKEN = OWN | {"demo__add", "demo__picture", "demo__fail", "demo__forecast"}
# A tool that each of them may not use, and a tool for which a person is asked.
DENIED_TO_LOCAL = ("demo__sleep", {"seconds": 0})
DENIED_TO_TOKEN = ("demo__echo", {"text": "hello"})
ASKED = "demo__picture"
# What the gateway says about them, and about calls that a rule or a limit refuses.
WHY_LOCAL = "denied by `deny: sleep`"
WHY_TOKEN = "is not selected"
BECAUSE = "sums of this size are for accountants"
LATER = "more than 1 calls in 1 hour; try again in "


def config():
    """The configuration; AGENT_TOKEN has the token, also where the SDK starts the gateway."""
    demo = {"command": "toolgate", "args": ["demo-server"], "deny": ["sleep"], "ask": ["picture"]}
    agent = {"principal": "agent", "token": "${AGENT_TOKEN}", "servers": {"demo": ["add", "picture", "fail", "forecast"]}}
    large = {"name": "large", "tools": ["demo.add"], "when": "args.a > 1000", "then": "deny", "because": BECAUSE}
    weeks = {"name": "weeks", "tools": ["demo.forecast"], "when": "args.days == 7", "limit": {"calls": 1, "per": "1h"}}
    return {
        "version": 1,
        "servers": {"demo": demo},
        "rules": [large, weeks],
        # So that there is a tool, `call_tool`, with which an agent can try what is not listed.
        "search": {"always": ["demo.*"]},
        "gateway": {"socket": False, "list": "search", "tokens": [agent]},
    }
