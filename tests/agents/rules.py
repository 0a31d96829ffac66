"""The configuration of the gateways, and what it leaves of the demo server to each principal."""

FOR_LOCAL = {"demo__echo", "demo__add", "demo__picture", "demo__fail", "demo__forecast"}
FOR_TOKEN = {"demo__add", "demo__picture", "demo__fail", "demo__forecast"}
# A tool that each of them may not use, and a tool for which a person is asked.
DENIED_TO_LOCAL = ("demo__sleep", {"seconds": 0})
DENIED_TO_TOKEN = ("demo__echo", {"text": "hello"})
ASKED = "demo__picture"


def config():
    """The configuration; AGENT_TOKEN has the token, also where the SDK starts the gateway."""
    demo = {"command": "toolgate", "args": ["demo-server"], "deny": ["sleep"], "ask": ["picture"]}
    agent = {"principal": "agent", "token": "${AGENT_TOKEN}", "servers": {"demo": ["add", "picture", "fail", "forecast"]}}
    return {"version": 1, "servers": {"demo": demo}, "gateway": {"socket": False, "tokens": [agent]}}
