"""The scenes: what a person who runs several replicas relies on."""

import json
import secrets
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import balancer
from client import Failed, LegacyClient, ModernClient, text_of
from cluster import ADA, BOB, Cluster, Redis
from load import Load
from processes import Late, Processes, until

CLIENTS = 64  # of each era
LEAVING = 5 + 10 + 15  # seconds in which a replica that was told to stop has ended: drain_delay, grace, its servers
AT_ONCE = 4  # seconds: enough on a busy machine, and less than any limit that could end the wait instead


class Stage:
    """What the scenes work with."""

    def __init__(self, toolgate, programs, folder, report, seconds, interval, matrix, longest_stall):
        self.toolgate, self.programs, self.folder, self.report = toolgate, programs, folder, report
        self.seconds, self.interval, self.matrix, self.longest_stall = seconds, interval, matrix, longest_stall

    @contextmanager
    def cluster(self, name, count, store=False, **gateway):
        """Replicas, and Redis if they have a store; all of it is stopped afterwards."""
        with Processes(self.folder / name) as processes:
            cluster = Cluster(self.toolgate, processes, self.folder / "cache")
            cluster.redis = Redis(processes) if store else None
            if store:
                gateway["store"] = cluster.redis.url
            cluster.add(count, **gateway)
            yield cluster


def behind_balancers(stage):
    """64 clients of each era behind each balancer, without affinity: at rest, under kills, while replicas are replaced."""
    for name, count in stage.matrix:
        # Of all that these clients do, nothing needs a store.
        with stage.cluster(f"{name}-{count}", count, store=count > 2) as cluster:
            ports = [replica.port for replica in cluster.replicas]
            front = balancer.start(name, cluster.processes, stage.programs, ports)
            told = f"{count} replicas behind {name}"
            at_rest(stage, cluster, front, told)
            under_kills(stage, cluster, front, told)
            while_replaced(stage, cluster, front, told)


def at_rest(stage, cluster, front, told):
    with Load("rest", front.port, CLIENTS) as load:
        time.sleep(5)
    failed = load.failed()
    stage.report.check(f"{told}: no session and no call fails", not failed, told_of(failed))
    names = [outcome.replica for outcome in load.outcomes]
    shares = {replica.name: names.count(replica.name) for replica in cluster.replicas}
    even = min(shares.values()) * 2 > max(shares.values())
    stage.report.check(f"{told}: each has its share", even, shares)
    check_once(stage, cluster, load, told)
    stage.report.note(f"{len(load.outcomes)} calls of {len(load.sessions)} clients, the slowest {slowest(load)}")


def under_kills(stage, cluster, front, told):
    kills = []
    with Load("kill", front.port, CLIENTS) as load:
        until(lambda: len(load.sessions) == 2 * CLIENTS, 30, "all clients to begin")
        end = time.monotonic() + stage.seconds
        while (began := time.monotonic()) < end:
            victim = cluster.replicas[len(kills) % len(cluster.replicas)]
            kills.append((time.monotonic(), victim.name))
            victim.kill()
            victim.start()
            victim.wait_until_ready()
            time.sleep(max(0, began + stage.interval - time.monotonic()))
    failed, executions = load.failed(), cluster.executions()
    stray = [outcome for outcome in failed if victim_of(outcome, kills) is None]
    stage.report.check(f"{told}, kill -9: only calls in flight at a kill fail", not stray, told_of(stray))
    elsewhere = [
        outcome for outcome in failed if set(executions.get(outcome.id, [])) - {victim_of(outcome, kills)}
    ]
    stage.report.check(f"{told}, kill -9: only calls of the killed replica fail", not elsewhere, told_of(elsewhere))
    silent = [outcome for outcome in failed if outcome.failure.kind == "hangs"]
    stage.report.check(f"{told}, kill -9: each failure is an answer or a closed connection", not silent, told_of(silent))
    check_once(stage, cluster, load, f"{told}, kill -9")
    check_stalls(stage, load, f"{told}, kill -9")
    flying = sum(on_victim(load, kill) for kill in kills)
    stage.report.check(f"{told}, kill -9: no more fail than were in flight", len(failed) <= flying, (len(failed), flying))
    kinds = sorted({str(outcome.failure)[:60] for outcome in failed})
    stage.report.note(
        f"{len(kills)} kills, {len(load.outcomes)} calls, {flying} in flight on the killed, {len(failed)} failed {kinds}, "
        f"the slowest {slowest(load)}"
    )


def while_replaced(stage, cluster, front, told):
    replaced = 0
    with Load("replace", front.port, CLIENTS) as load:
        until(lambda: len(load.sessions) == 2 * CLIENTS, 30, "all clients to begin")
        end = time.monotonic() + stage.seconds
        while time.monotonic() < end:
            victim = cluster.replicas[replaced % len(cluster.replicas)]
            victim.terminate()
            victim.process.wait(LEAVING)
            victim.start()
            victim.wait_until_ready()
            # The balancer has to see that it is back.
            time.sleep(1.5)
            replaced += 1
    failed = load.failed()
    stage.report.check(f"{told}, SIGTERM: no session and no call fails", not failed, told_of(failed))
    check_once(stage, cluster, load, f"{told}, SIGTERM")
    check_stalls(stage, load, f"{told}, SIGTERM")
    stage.report.note(f"{replaced} replaced, {len(load.outcomes)} calls, the slowest {slowest(load)}")


def a_replica_that_leaves(stage):
    """What SIGTERM does, seen from clients that talk to the replica itself."""
    with stage.cluster("leaves", 1) as cluster:
        replica = cluster.replicas[0]
        check = stage.report.check
        client, modern = LegacyClient(replica.port, ADA), ModernClient(replica.port, ADA)
        client.open()
        stream = client.at(replica.port)
        opened = stream.stream()
        results = {}

        def call(name, seconds):
            caller = ModernClient(replica.port, ADA)
            try:
                results[name] = text_of(caller.call("s__work", {"id": f"leaves-{name}", "seconds": seconds}))
            except Failed as failure:
                results[name] = failure

        # One ends in the time in which new calls are taken, one in the time that calls have after it, one never.
        lengths = {"soon": 2, "late": 8, "never": 60}
        threads = [threading.Thread(target=call, args=args, daemon=True) for args in lengths.items()]
        for thread in threads:
            thread.start()
        until(lambda: len(cluster.executions()) == 3, 5, "the calls to begin")
        began = time.monotonic()
        replica.terminate()
        status = happens(lambda: (found := replica.probe("/ready"))[0] != 200 and found, AT_ONCE)
        check("/ready says 503 at once", status and status[0] == 503, status)
        check("/health still says 200", replica.probe("/health")[0] == 200, replica.probe("/health"))
        # A cluster asks by the address of the pod, and some probes name no host that we know.
        foreign = replica.probe("/ready", {"Host": "somewhere.example:80"})
        check("/ready is answered under any name", foreign[0] == 503 and "host" not in foreign[1], foreign)
        check("new calls are taken", text_of(client.call("s__work", {"id": "leaves-new"})) == replica.name, "")
        check("of both eras", text_of(modern.call("s__work", {"id": "leaves-new-modern"})) == replica.name, "")
        events = list(stream.events(opened))
        closed = time.monotonic() - began
        check("streams end", 4 < closed < LEAVING, closed)
        check("with a hint when to come back", any("retry" in event for event in events), events)
        code = replica.process.wait(LEAVING)
        left = time.monotonic() - began
        check("it ends in the time that it has", 5 <= left < LEAVING, left)
        check("and its end is no failure", code == 0, code)
        for thread in threads:
            thread.join(5)
        check("a call that ends soon is answered", results.get("soon") == replica.name, results)
        check("a call that ends within grace is answered", results.get("late") == replica.name, results)
        unknown = results.get("never")
        named = isinstance(unknown, Failed) and unknown.kind == "error" and "unknown" in str(unknown)
        check("a call that does not end is answered as one whose outcome is unknown", named, unknown)
        check("nothing ran twice", all(len(runs) == 1 for runs in cluster.executions().values()), cluster.executions())


def a_question_in_the_middle(stage):
    """A client with a session that is asked by one replica and answers to another."""
    for store in (True, False):
        told = "with Redis" if store else "without a store"
        with stage.cluster(f"asks-{store}", 3, store=store) as cluster:
            one, other, third = cluster.replicas
            client = LegacyClient(one.port, ADA)
            client.open({"elicitation": {}})
            heard = {}

            def answer(message):
                said = {"id": message["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
                began = time.monotonic()
                heard["elsewhere"] = client.at(other.port).send(said)
                heard["after"] = time.monotonic() - began
                if not store:
                    heard["here"] = client.at(one.port).send(said)

            try:
                heard["result"] = text_of(client.call("s__ask", {"id": f"asks-{store}"}, answer))
            except Failed as failure:
                heard["result"] = str(failure)
            arrived = heard.get("result") == '{"action": "accept", "content": {"name": "Ada"}}'
            check, status = stage.report.check, heard.get("elsewhere", (0, ""))[0]
            check(f"{told}, the answer reaches the replica that asked", arrived, heard)
            if store:
                check(f"{told}, another replica takes it", status == 202, heard)
                check(f"{told}, at once", heard.get("after", 9) < AT_ONCE, heard)
                gone(stage, cluster, third, other)
            else:
                check(f"{told}, another replica says that it cannot take it", status >= 400, heard)
                right = heard.get("after", 9) < AT_ONCE and heard["elsewhere"][1]
                check(f"{told}, it says so at once and in words", right, heard)
                check(f"{told}, the replica that asked can still be told", heard.get("here", (0, ""))[0] == 202, heard)


def gone(stage, cluster, asking, other):
    """The replica that asked is killed before the answer comes."""
    client, heard = LegacyClient(asking.port, ADA), {}
    client.open({"elicitation": {}})

    def answer(message):
        asking.kill()
        began = time.monotonic()
        said = {"id": message["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
        heard["answer"] = client.at(other.port).send(said)
        heard["after"] = time.monotonic() - began

    try:
        client.call("s__ask", {"id": "asks-gone"}, answer)
    except Failed as failure:
        heard["call"] = failure.kind
    status, text = heard.get("answer", (0, ""))
    check = stage.report.check
    check("whoever answers a replica that is gone is told at once", status >= 400 and heard["after"] < 2 and text, heard)
    check("the call to it is visibly disconnected", heard.get("call") == "disconnected", heard)


def an_ended_session(stage):
    """DELETE at one replica."""
    with stage.cluster("ends", 3, store=True) as cluster:
        one, *others = cluster.replicas
        client = LegacyClient(one.port, ADA)
        client.open()
        for replica in cluster.replicas:
            client.at(replica.port).tools()
        stage.report.check("DELETE ends the session", client.delete() in (200, 204), "")
        for replica in cluster.replicas:
            ended = happens(lambda: refused(client.at(replica.port).tools) == 404, AT_ONCE)
            stage.report.check(f"with Redis, {replica.name} has heard of it", ended, "")
    with stage.cluster("ends-alone", 2) as cluster:
        one, other = cluster.replicas
        client = LegacyClient(one.port, ADA)
        client.open()
        client.delete()
        here, there = (refused(client.at(replica.port).tools) for replica in (one, other))
        right = (here, there) == (404, 0)
        stage.report.check("without a store, it ends where it was ended, and the others cannot know", right, (here, there))


def ids_that_are_not_ours(stage):
    """Session ids that are forged, sealed with an old or a foreign key, or of another principal."""
    with stage.cluster("ids", 2) as cluster:
        check, (one, other) = stage.report.check, cluster.replicas
        client, first, second = LegacyClient(one.port, ADA), cluster.key, secrets.token_hex(32)
        client.open()
        good = client.session
        # How keys are changed: the new one seals at the front, and the old one is accepted until it is removed.
        [changing] = cluster.add(session_keys=[second, first])
        [changed] = cluster.add(session_keys=[second])
        short = len(good) <= 1024 and good.isascii() and good.isprintable()
        check("an id is at most 1 KiB of visible letters", short, len(good))
        for replica in (one, other, changing):
            check(f"a good id is good at {replica.name}", refused(client.at(replica.port).tools) == 0, good)
        newer = LegacyClient(changing.port, ADA)
        newer.open()
        check("what the new key seals is good where it is known", refused(newer.at(changed.port).tools) == 0, newer.session)
        middle = len(good) // 2
        flipped = good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :]
        rows = [
            ("a forged id", other, secrets.token_hex(16), ADA, 404),
            ("a forged id of the right length", other, secrets.token_hex(len(good))[: len(good)], ADA, 404),
            ("an id with one letter changed", other, flipped, ADA, 404),
            ("an id that is cut", other, good[:-4], ADA, 404),
            ("an id with something behind it", other, good + "AAAA", ADA, 404),
            ("an id of 4 KiB", other, "A" * 4096, ADA, 404),
            ("an old id, whose key was removed", changed, good, ADA, 404),
            ("an id of another gateway", one, newer.session, ADA, 404),
            ("an id of another principal", one, good, BOB, 404),
            ("an id of another principal at another replica", other, good, BOB, 404),
            ("a good id without a token", other, good, None, 401),
            ("a good id with a wrong token", other, good, "wrong-" + "0" * 32, 401),
        ]
        said = {}
        for what, replica, id, token, expected in rows:
            for method in ("POST", "GET", "DELETE"):
                stranger = LegacyClient(replica.port, token, keep=False, session=id)
                status, text = said[what, method] = attempt(stranger, method)
                check(f"{what} gets {expected} for {method}", status == expected, (status, text))
                check(f"{what} learns nothing by {method}", ADA not in text and good not in text, text)
        alike = ("a forged id", "an id of another principal", "an id with one letter changed")
        check("nobody learns which of them exist", len({said[what, "POST"] for what in alike}) == 1, said)
        check("none of them had a call executed", not cluster.executions(), cluster.executions())
        check("the session goes on", refused(client.at(other.port).tools) == 0, "")


def attempt(client, method):
    """The status and the text for a request with this session."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "s__work", "arguments": {"id": "strange"}}
    try:
        response = client.exchange(method, message if method == "POST" else None)
        return response.status, "" if response.status == 200 and method == "GET" else response.read().decode()
    except Failed as failure:
        return 0, str(failure)
    finally:
        client.close()


def streams_of_another_replica(stage):
    """A client that lost a stream and comes back to another replica with the id of the last event."""
    with stage.cluster("streams", 2) as cluster:
        check, (one, other) = stage.report.check, cluster.replicas
        client = LegacyClient(one.port, ADA)
        client.open()
        first = first_event(client.at(one.port), lambda client: client.stream())
        right = {"id", "retry"} <= first.keys()
        check("the stream of a session begins with an id and a hint when to come back", right, first)
        for replica in (one, other):
            began, again = time.monotonic(), client.at(replica.port)
            status = again.stream(first.get("id")).status
            again.close()
            right = status == 200 and time.monotonic() - began < AT_ONCE
            check(f"after that id, {replica.name} goes on at once", right, status)
        for replica, takes in ((one, True), (other, False)):
            id = f"stream-{replica.name}"
            params = {"name": "s__work", "arguments": {"id": id, "seconds": 1}}
            call = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
            # Who names a stream first rather has one.
            accept = {"Accept": "text/event-stream, application/json"}
            first = first_event(client.at(one.port), lambda client: client.exchange("POST", call, **accept))
            check(f"the stream of {id} begins with an id", "id" in first, first)
            again = client.at(replica.port)
            try:
                answer = next(again.messages(again.stream(first.get("id"))), {})
            except Failed as failure:
                answer = {"failure": str(failure)}
            again.close()
            if takes:
                right = answer.get("id") == id and text_of(answer.get("result", {})) == one.name
                check("the response to a call is there for a client that comes back", right, answer)
            else:
                unknown = answer.get("id") == id and "outcome-unknown" in json.dumps(answer.get("error"))
                check("another replica says that it is lost, and its outcome unknown", unknown, answer)
        status = refused(lambda: list(client.messages(client.stream("nonsense"))))
        check("an id that is none is refused", status == 400, status)


def first_event(client, send):
    """The first event of a stream, which is then broken off."""
    try:
        return next(client.events(send(client)), {})
    finally:
        client.close()


def what_is_counted_together(stage):
    """Limits of rules with Redis: exact over three replicas, and closed while Redis is away."""
    most = 50
    rules = [{"name": "most", "tools": ["s.look"], "limit": {"calls": most, "per": "1h", "by": "principal"}}]
    with stage.cluster("counts", 3, store=True, rules=rules) as cluster:
        check, ports = stage.report.check, [replica.port for replica in cluster.replicas]
        through = []

        def call(number):
            client = ModernClient(ports[number % len(ports)], ADA)
            for attempt in range(3):
                if refused(lambda: client.call("s__look", {"id": f"counts-{number}-{attempt}"})) == 0:
                    through.append(number)
            client.close()

        threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        check(f"of {3 * CLIENTS} calls at three replicas, {most} are let through", len(through) == most, len(through))
        cluster.redis.kill()
        one = cluster.replicas[0]
        began = time.monotonic()
        client = ModernClient(one.port, BOB)
        counted = refused(lambda: client.call("s__look", {"id": "counts-away"}))
        check("without Redis, a call that must be counted is refused", counted != 0, counted)
        check("within two seconds", time.monotonic() - began < 2, time.monotonic() - began)
        began = time.monotonic()
        other = refused(lambda: client.call("s__work", {"id": "counts-other"}))
        right = other == 0 and time.monotonic() - began < AT_ONCE
        check("without Redis, a call that needs no counting goes on", right, other)
        ready = happens(lambda: "store" in (found := one.probe("/ready"))[1] and found, 10)
        check("/ready says that the store is away, and stays 200", ready and ready[0] == 200, one.probe("/ready"))
        cluster.redis.start()
        back = happens(lambda: refused(lambda: client.call("s__look", {"id": "counts-back"})) == 0, 15)
        check("when Redis is back, calls are counted again", back, "")


def official_clients(stage):
    """Python's official SDK in both eras, behind haproxy."""
    with stage.cluster("sdk", 3, store=True) as cluster:
        front = balancer.start("haproxy", cluster.processes, stage.programs, [replica.port for replica in cluster.replicas])
        for mode in ("legacy", "2026-07-28", "auto"):
            program = Path(__file__).with_name("sdk.py")
            command = [stage.programs / "python", program, f"http://127.0.0.1:{front.port}/mcp", ADA, mode, "8"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=90)
            right = done.returncode == 0 and not done.stdout
            stage.report.check(f"8 official clients, mode {mode}, are served", right, done.stdout + done.stderr[-1500:])
        twice = {id: runs for id, runs in cluster.executions().items() if len(runs) != 1}
        stage.report.check("each of their calls ran once", not twice, twice)


def happens(condition, limit):
    """What a condition returned when it was true; nothing if it was not in time."""
    try:
        return until(condition, limit, "")
    except Late:
        return None


def refused(send):
    """0 if a request succeeds, its status if it was refused, and 1 if it failed in another way."""
    try:
        send()
        return 0
    except Failed as failure:
        return failure.status or 1


def victim_of(outcome, kills):
    """The name of the replica at whose kill this call was in flight."""
    # A balancer that has not read yet that a connection was closed may still send a call into it.
    slack = 0.1
    return next((name for at, name in kills if outcome.began - slack <= at <= outcome.ended), None)


def on_victim(load, kill):
    """How many calls the killed replica may have had in flight: those that no other replica answered."""
    at, victim = kill
    flying = [outcome for outcome in load.outcomes if victim_of(outcome, [kill])]
    return sum(outcome.failure is not None or outcome.replica == victim for outcome in flying)


def check_once(stage, cluster, load, told):
    executions = cluster.executions()
    ids = {outcome.id for outcome in load.outcomes}
    twice = {id: runs for id, runs in executions.items() if id in ids and len(runs) > 1}
    stage.report.check(f"{told}: nothing runs twice", not twice, twice)
    answered = [outcome for outcome in load.outcomes if not outcome.failure]
    untrue = [outcome for outcome in answered if executions.get(outcome.id) != [outcome.replica]]
    stage.report.check(f"{told}: what was answered ran where the answer says", not untrue, told_of(untrue))


def check_stalls(stage, load, told):
    # A call needs the processor on its way there and back.
    allowed = stage.longest_stall + 2 * load.late
    late = [outcome for outcome in load.outcomes + load.sessions if outcome.stall > allowed]
    stage.report.check(f"{told}: no call waits for more than {stage.longest_stall} s", not late, told_of(late))


def slowest(load):
    most = max(outcome.stall for outcome in load.outcomes)
    return f"{most * 1000:.0f} ms more than its tool took, on a machine that is late by {load.late * 1000:.0f} ms"


def told_of(outcomes):
    lines = [
        f"{outcome.id} ({outcome.era}, {outcome.replica or '?'}): stalled {outcome.stall:.2f} s, {outcome.failure}"
        for outcome in outcomes[:8]
    ]
    return "\n".join([f"{len(outcomes)} of them:", *lines]) if outcomes else ""


ALL = [behind_balancers, a_replica_that_leaves, a_question_in_the_middle, an_ended_session, ids_that_are_not_ours,
       streams_of_another_replica, what_is_counted_together, official_clients]
