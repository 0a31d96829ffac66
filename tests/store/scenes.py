"""Tries gateways that share a real Redis: `scenes.py TOOLGATE [SCENE…]`.

Each scene starts a Redis and two or three replicas of its own. A failed check ends it with an exception.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True  # The source tree stays as it is.

from world import PASSWORD, Redis, Replica, Session, free_port, until  # noqa: E402

ANN, BOB = "ann-0123456789-token", "bob-0123456789-token"
KEY = "a-key-of-all-replicas-0123456789-0123456789"
UNREACHABLE = "the store of counts and contexts cannot be reached"
FEW = {"name": "few", "tools": ["demo.add"], "limit": {"calls": 100, "per": "1h", "by": "everybody"}}


class Stage:
    """A Redis, and replicas with one configuration."""

    def __init__(self, toolgate, folder):
        self.toolgate, self.folder = toolgate, folder
        self.redis, self.replicas = Redis(folder), []

    def config(self, **settings):
        """Writes a configuration of the demo server, and returns its file."""
        tokens = [{"principal": "ann", "token": ANN, "admin": True}, {"principal": "bob", "token": BOB}]
        gateway = {"store": self.redis.url, "socket": False, "drain_delay": "0s", "tokens": tokens, "session_keys": [KEY]}
        gateway.update(settings.pop("gateway", {}))
        demo = {"command": self.toolgate, "args": ["demo-server"]}
        config = {"version": 1, "servers": {"demo": demo}, "gateway": gateway, **settings}
        file = self.folder / "toolgate.yaml"
        file.write_text(json.dumps(config))
        return file

    def start(self, count, **settings):
        """Starts replicas that have called a tool and reached the store."""
        file = self.config(**settings)
        replicas = [Replica(self.toolgate, file) for _ in range(count)]
        self.replicas += replicas
        for replica in replicas:
            until("the store is reached", replica.is_reached)
            answer = replica.call("demo__sleep", {"seconds": 0}, BOB)
            assert answer.code == "ok", answer
        return replicas

    def check(self, url):
        """Runs `toolgate check`, and returns its exit code and output."""
        file = self.config(gateway={"store": url})
        command = [self.toolgate, "--config", file, "check"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout + ran.stderr

    def command(self, replica, *arguments):
        """Runs a command of an operator that asks a replica."""
        command = [self.toolgate, *arguments, "--gateway", f"http://127.0.0.1:{replica.port}"]
        environment = {**os.environ, "TOOLGATE_GATEWAY_TOKEN": ANN}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def end(self):
        for replica in self.replicas:
            replica.end()
        self.redis.kill()


def add(replica, token=ANN):
    return replica.call("demo__add", {"a": 1, "b": 2}, token)


def echo(replica, token=ANN):
    return replica.call("demo__echo", {"text": "x"}, token)


def at_once(work, count, threads=12):
    """Runs something often and at the same time, with a number; returns what it returned."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(count)))


def a_limit_is_exact_on_three_replicas_and_costs_one_round_trip(stage):
    replicas = stage.start(3, rules=[FEW])
    assert add(replicas[0]).code == "ok"  # Redis knows the script from now on.
    stage.redis.ask("CONFIG", "RESETSTAT")
    answers = at_once(lambda turn: add(replicas[turn % 3], [ANN, BOB][turn % 2]), 299)
    codes = [answer.code for answer in answers]
    assert (codes.count("ok"), codes.count("not-allowed")) == (99, 200), codes
    refused = next(answer for answer in answers if answer.code == "not-allowed")
    assert "more than 100 calls in 1 hour; try again in" in refused.text, refused
    asked = {command: stage.redis.calls(command) for command in ["evalsha", "eval", "get"]}
    assert asked == {"evalsha": 299, "eval": 0, "get": 0}, asked


def calls_without_rules_never_ask_the_store(stage):
    one, other = stage.start(2, rules=[FEW])
    stage.redis.ask("CONFIG", "RESETSTAT")
    assert {echo([one, other][turn % 2]).code for turn in range(20)} == {"ok"}
    assert stage.redis.calls("evalsha") == stage.redis.calls("eval") == 0


def a_rate_is_exact_on_three_replicas(stage):
    replicas = stage.start(3, gateway={"rate": 50})
    began = time.monotonic()
    answers = at_once(lambda turn: echo(replicas[turn % 3]), 300)
    took = time.monotonic() - began
    taken = [answer.status for answer in answers].count(200)
    assert 100 <= taken <= 100 + 50 * took + 1, (taken, took)
    refused = [answer for answer in answers if answer.status != 200]
    wrong = [answer for answer in refused if answer.status != 429 or int(answer.headers["Retry-After"]) < 1]
    assert not wrong, (len(wrong), wrong[0])
    assert echo(replicas[0], BOB).status == 200, "each principal has its own"


def what_an_agent_has_seen_counts_on_every_replica(stage):
    rules = [
        {"name": "strangers", "tools": ["demo.add"], "when": '"untrusted" in labels && !known(args.a)', "then": "deny"},
        {"name": "written", "tools": ["demo.forecast"], "when": '"written:demo" in labels', "then": "deny"},
    ]
    one, other = stage.start(2, rules=rules, results={"demo.echo": {"labels": ["untrusted"]}})

    def both(tool, arguments, token=ANN):
        return [replica.call(tool, arguments, token).code for replica in (one, other)]

    assert one.call("demo__add", {"a": 41, "b": 1}, ANN).code == "ok"
    assert both("demo__forecast", {"city": "Bern", "days": 1}) == ["ok", "ok"]
    assert one.call("demo__echo", {"text": "add 99 and 1"}, ANN).code == "ok"
    assert both("demo__add", {"a": 99, "b": 1}) == ["not-allowed", "not-allowed"]
    assert both("demo__add", {"a": 41, "b": 1}) == ["ok", "ok"], "41 is known from before"
    assert both("demo__add", {"a": 99, "b": 1}, BOB) == ["ok", "ok"], "another principal has seen nothing"
    stage.redis.ask("CONFIG", "RESETSTAT")
    asked = json.dumps({"name": "demo__add", "arguments": {"a": 99, "b": 1}, "as": "ann"})
    _, _, body = other.request("POST", "/api/v1/mcp/decide", ANN, asked)
    assert json.loads(body)["code"] == "not-allowed", body
    looked = [stage.redis.calls(command) for command in ("zrange", "pexpire", "zadd")]
    assert looked[0] > 0 and looked[1:] == [0, 0], f"who looks as an agent does not keep what it has seen: {looked}"
    assert other.call("demo__fail", {"message": "x"}, ANN).code == "tool-error"
    assert both("demo__forecast", {"city": "Bern", "days": 1}) == ["not-allowed", "not-allowed"]
    _, _, body = other.request("GET", "/api/v1/context", ANN)
    agents = {agent["principal"]: agent["labels"] for agent in json.loads(body)["agents"]}
    assert agents["ann"] == ["untrusted", "written:demo"], agents
    status, _, body = other.request("POST", "/api/v1/context/reset", ANN, '{"principal": "ann"}')
    assert (status, json.loads(body)) == (200, {"forgotten": 1}), body
    until("ann is new again", lambda: both("demo__add", {"a": 99, "b": 1}) == ["ok", "ok"])


SEND = {"name": "send", "tools": ["demo.add"], "when": '"untrusted" in labels', "then": "deny"}
ASK = {"name": "ask", "tools": ["demo.add"], "then": "ask"}


def what_an_agent_has_seen_survives_a_store_that_is_emptied(stage):
    one, other = stage.start(2, rules=[SEND], results={"demo.echo": {"labels": ["untrusted"]}})
    # Bob is remembered by neither; Ann has called both, and only one has shown her the page of a stranger.
    assert [add(replica).code for replica in (one, other)] == ["ok", "ok"]
    assert echo(one).code == "ok"
    stage.redis.ask("FLUSHALL")
    assert [add(replica).code for replica in (other, one)] == ["not-allowed", "not-allowed"], "ann is labelled"
    assert [add(replica, BOB).code for replica in (one, other)] == ["not-allowed", "not-allowed"], "bob may be"
    for replica in (one, other):
        assert replica.about()["store_lost"] is True
        assert "toolgate_store_lost 1" in replica.request("GET", "/metrics", ANN)[2]
        assert "".join(replica.log).count("the store has lost what was in it") == 1, replica.log
    assert stage.command(other, "status").stdout.count("see `toolgate context adopt`") == 1
    adopted = stage.command(other, "context", "adopt", "--json")
    assert (adopted.returncode, json.loads(adopted.stdout)) == (0, {"adopted": True}), adopted
    for replica in (one, other):
        until("it hears of it", lambda replica=replica: replica.about()["store_lost"] is False)
        assert add(replica).code == "not-allowed", "ann is labelled still"
        assert add(replica, BOB).code == "ok"
    assert other.request("POST", "/api/v1/context/adopt", BOB, "{}")[0] == 403


def a_used_approval_stays_used_when_the_store_is_emptied(stage):
    one, other = stage.start(2, rules=[ASK])

    def code(replica, state):
        return replica.answer("demo__add", {"a": 1, "b": 2}, ANN, state).code

    used, unused = (one.ask("demo__add", {"a": 1, "b": 2}, ANN) for _ in range(2))
    assert code(other, used) == "ok", "a yes counts at any replica"
    stage.redis.ask("FLUSHALL")
    for state in (used, unused, used):
        assert [code(replica, state) for replica in (one, other)] == [None, None], "the person is asked again"
    assert code(one, other.ask("demo__add", {"a": 1, "b": 2}, ANN)) == "ok"


def nobody_who_writes_to_redis_speaks_for_a_person_or_a_replica(stage):
    one, other = stage.start(2, rules=[ASK])
    session = Session(one, ANN)
    session.send({"method": "logging/setLevel", "params": {"level": "info"}, "id": "level"})
    [key] = stage.redis.ask("-n", "1", "KEYS", "toolgate:{sessions}:state:*").split()
    name, kept = key.rsplit(":", 1)[1], stage.redis.ask("-n", "1", "GET", key)
    assert "info" not in kept, kept
    channels = stage.redis.ask("PUBSUB", "CHANNELS", "toolgate:*").split()
    assert len(channels) == 3, channels
    asked = session.ask("demo__add", {"a": 1, "b": 2})
    answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"approve": True}}})
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "call"}}
    huge = {"ended": {"session": "x", "rest": 2**64 - 1}}
    forged = [
        {"forwarded": {"session": name, "message": answer}},
        {"forwarded": {"session": name, "message": json.dumps(cancel)}},
        {"ended": {"session": name, "rest": 60}},
        {"changed": {"session": name}},
        {"reset": {"principal": None}},
        {"adopted": {"epoch": "x"}},
        huge,
    ]
    for channel in channels:
        for message in forged:
            stage.redis.ask("PUBLISH", channel, "0badcafe\n" + json.dumps(message))
    stage.redis.ask("-n", "1", "ZADD", "toolgate:{sessions}:ended", "inf", name)
    stage.redis.ask("-n", "1", "SET", key, '{"log_level":"debug","resources":[]}')
    stage.redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
    for replica in (one, other):
        until("it listens again", lambda replica=replica: replica.about()["replicas"] == "listening")
        until("the reason is said", lambda replica=replica: any("does not count" in line for line in replica.log))
    until("ends without a mark are told", lambda: any("go on: none of our" in line for line in one.log))
    assert session.open_stream(), "nobody has answered or cancelled it"
    status, body = session.at(other).post(answer)
    assert status == 202, (status, body)
    assert session.result()["content"][0]["text"] == "3"


def what_was_sealed_counts_once(stage):
    one, other = stage.start(2, rules=[SEND], results={"demo.echo": {"labels": ["untrusted"]}})
    heard = stage.redis.listen("toolgate:to-all")
    assert echo(one).code == "ok"
    assert one.request("POST", "/api/v1/context/reset", ANN, "{}")[0] == 200
    message = until("the reset is sent", lambda: heard and heard[0])
    assert echo(other).code == "ok"
    for _ in range(3):
        stage.redis.ask("PUBLISH", "toolgate:to-all", message)
    until("the reason is said", lambda: any("it was sent again" in line for line in other.log))
    stage.redis.ask("-n", "1", "DEL", "toolgate:{agents}:labels:ann")
    assert add(other).code == "not-allowed", "a reset that is sent again makes nobody forget"


def without_common_keys_only_the_replica_that_asked_hears_the_answer(stage):
    one, other = stage.start(2, rules=[ASK], gateway={"session_keys": []})
    session = Session(one, ANN)
    asked = session.ask("demo__add", {"a": 1, "b": 2})
    answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"approve": True}}})
    status, body = session.at(other).post(answer)
    assert status == 409 and "gateway.session_keys" in body, (status, body)
    assert session.at(one).post(answer)[0] == 202
    assert session.result()["content"][0]["text"] == "3"
    state = one.ask("demo__add", {"a": 1, "b": 2}, ANN)
    refused = other.answer("demo__add", {"a": 1, "b": 2}, ANN, state)
    assert refused.status == 409 and "gateway.session_keys" in refused.body, refused
    assert one.answer("demo__add", {"a": 1, "b": 2}, ANN, state).code == "ok"
    status, _, body = one.request("POST", "/api/v1/context/reset", ANN, "{}")
    assert "gateway.session_keys" in json.loads(body)["others_not_told"], body
    assert any("without gateway.session_keys" in line for line in one.log)


def a_store_that_dies_stops_only_what_must_be_counted(stage):
    one, other = stage.start(2, rules=[FEW], results={"demo.picture": {"labels": ["seen"]}})
    assert add(one).code == "ok"
    stage.redis.kill()
    for replica in (one, other):
        until("it is noticed", lambda replica=replica: replica.ready() == (200, "unreachable"))
        began = time.monotonic()
        for _ in range(20):
            refused = add(replica)
            assert refused.code == "not-allowed" and UNREACHABLE in refused.text, refused
            assert "127.0.0.1" not in refused.text and "more than" not in refused.text, refused
        assert time.monotonic() - began < 4, "nobody waits for a store that is gone"
        assert replica.call("demo__picture", {}, ANN).code == "not-allowed", "its lesson cannot be shared"
        assert echo(replica).code == "ok"
        assert "toolgate_store_reachable 0" in replica.request("GET", "/metrics", ANN)[2]
        assert replica.request("GET", "/api/v1/context", ANN)[0] == 503
    stage.redis.start()
    for replica in (one, other):
        until("it is reached again", replica.is_reached)
        assert add(replica).code == "ok"
        assert "toolgate_store_reachable 1" in replica.request("GET", "/metrics", ANN)[2]
        log = "".join(replica.log)
        assert log.count("the store cannot be reached") == 1, log
        assert PASSWORD not in log, log


def a_store_that_hangs_is_waited_for_only_until_that_is_known(stage):
    (replica,) = stage.start(1, rules=[{**FEW, "limit": {**FEW["limit"], "calls": 20}}])
    assert add(replica).code == "ok"
    stage.redis.signal(signal.SIGSTOP)
    waited = 0
    for _ in range(20):
        began = time.monotonic()
        refused = add(replica)
        assert refused.code == "not-allowed" and UNREACHABLE in refused.text, refused
        waited += time.monotonic() - began > 0.2
    assert 1 <= waited <= 5, waited
    assert {echo(replica).code for _ in range(5)} == {"ok"}
    stage.redis.signal(signal.SIGCONT)
    until("it is reached again", replica.is_reached)
    codes = [add(replica).code for _ in range(25)]
    # Redis may have counted the calls that waited, but none twice.
    assert 19 - waited <= codes.count("ok") <= 19 and codes == sorted(codes, reverse=True), (waited, codes)


def a_store_that_is_emptied_counts_anew_without_a_failed_call(stage):
    one, other = stage.start(2, rules=[FEW])

    def work(turn):
        if turn in (10, 20):
            stage.redis.ask("SCRIPT", "FLUSH")
        if turn in (30, 40):
            stage.redis.ask("FLUSHALL")
        return add([one, other][turn % 2]).code

    assert set(at_once(work, 60, threads=4)) == {"ok"}


def with_the_open_policy_each_replica_counts_alone(stage):
    few = {**FEW, "limit": {**FEW["limit"], "calls": 3}}
    seen = {"name": "seen", "tools": ["demo.forecast"], "when": '"untrusted" in labels', "then": "deny"}
    settings = {"rules": [few, seen], "results": {"demo.echo": {"labels": ["untrusted"]}}}
    one, other = stage.start(2, gateway={"on_store_failure": "open", "rate": 1000}, **settings)
    assert echo(one).code == "ok"
    stage.redis.kill()
    for replica, forecast in ((one, "not-allowed"), (other, "ok")):
        until("it is noticed", lambda replica=replica: replica.ready() == (200, "unreachable"))
        assert replica.call("demo__forecast", {"city": "Bern", "days": 1}, ANN).code == forecast
        assert [add(replica).code for _ in range(4)] == ["ok", "ok", "ok", "not-allowed"]


def a_rate_that_cannot_be_counted_refuses_clients_and_no_operator(stage):
    (replica,) = stage.start(1, gateway={"rate": 1000})
    assert echo(replica).status == 200
    stage.redis.kill()
    until("it is noticed", lambda: replica.ready() == (200, "unreachable"))
    refused = echo(replica)
    assert refused.status == 503 and refused.headers["Retry-After"] == "1" and UNREACHABLE in refused.body, refused
    for page in ("/health", "/metrics", "/api/v1/servers"):
        assert replica.request("GET", page, ANN)[0] == 200, page


def check_says_whether_the_store_can_be_reached(stage):
    code, output = stage.check(stage.redis.url)
    assert code == 0 and "✓ gateway.store  redis · " in output, output
    wrong = "wr0ng-password-0123456789"
    code, output = stage.check(stage.redis.url.replace(PASSWORD, wrong))
    assert code == 3 and "✗ gateway.store  the store cannot be reached: 127.0.0.1:" in output, output
    assert wrong not in output and PASSWORD not in output, output
    code, output = stage.check("memory")
    assert code == 0 and "gateway.store" not in output, output
    stage.redis.kill()
    code, output = stage.check(stage.redis.url)
    assert code == 3 and "refused" in output.lower(), output


def a_change_of_the_store_needs_a_restart(stage):
    (replica,) = stage.start(1)
    stage.config(gateway={"store": "memory"})
    replica.process.send_signal(signal.SIGHUP)
    until("it is said", lambda: any("a change of gateway.store needs a restart" in line for line in replica.log))
    assert replica.is_reached()


def tls_is_used_and_checked(stage):
    folder = stage.folder

    def openssl(*command):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
    openssl(*new, "-keyout", "redis.key", "-out", "redis.csr", "-subj", "/CN=redis")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    sign = ["x509", "-req", "-in", "redis.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    openssl(*sign, "-extfile", "names", "-out", "redis.pem")
    stage.redis.kill()
    port = free_port()
    tls = ["--tls-port", port, "--tls-cert-file", "redis.pem", "--tls-key-file", "redis.key"]
    stage.redis.options = [*tls, "--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no"]
    stage.redis.start()
    url = f"rediss://:{PASSWORD}@127.0.0.1:{port}/0"
    code, output = stage.check(url)
    assert code == 3 and "certificate" in output.lower(), output
    os.environ["SSL_CERT_FILE"] = str(folder / "ca.pem")
    try:
        code, output = stage.check(url)
    finally:
        del os.environ["SSL_CERT_FILE"]
    assert code == 0, output


SCENES = [
    a_limit_is_exact_on_three_replicas_and_costs_one_round_trip,
    calls_without_rules_never_ask_the_store,
    a_rate_is_exact_on_three_replicas,
    what_an_agent_has_seen_counts_on_every_replica,
    what_an_agent_has_seen_survives_a_store_that_is_emptied,
    a_used_approval_stays_used_when_the_store_is_emptied,
    nobody_who_writes_to_redis_speaks_for_a_person_or_a_replica,
    what_was_sealed_counts_once,
    without_common_keys_only_the_replica_that_asked_hears_the_answer,
    a_store_that_dies_stops_only_what_must_be_counted,
    a_store_that_hangs_is_waited_for_only_until_that_is_known,
    a_store_that_is_emptied_counts_anew_without_a_failed_call,
    with_the_open_policy_each_replica_counts_alone,
    a_rate_that_cannot_be_counted_refuses_clients_and_no_operator,
    check_says_whether_the_store_can_be_reached,
    a_change_of_the_store_needs_a_restart,
    tls_is_used_and_checked,
]


def main():
    toolgate, *wanted = sys.argv[1:]
    scenes = [scene for scene in SCENES if not wanted or scene.__name__ in wanted]
    assert scenes, f"there are: {', '.join(scene.__name__ for scene in SCENES)}"
    for scene in scenes:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="toolgate-store-") as folder:
            stage = Stage(toolgate, Path(folder))
            try:
                scene(stage)
            except BaseException:
                print(f"FAIL {scene.__name__}", flush=True)
                for replica in stage.replicas:
                    print("".join(replica.log[-20:]), flush=True)
                raise
            finally:
                stage.end()
        print(f"ok   {scene.__name__}  {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
