"""Many clients of both eras at work, and what became of each of their calls."""

import itertools
import threading
import time
from dataclasses import dataclass

from client import Failed, LegacyClient, ModernClient, text_of
from cluster import ADA, BOB

SECONDS = 0.2  # what the tool takes for each call
PAUSE = 2.0  # between two calls of a client: a build without optimization on two cores keeps up with 128 of them
BEAT = 0.01


@dataclass
class Outcome:
    """One call: what it was, when it began and ended, and why it failed, if it did."""

    id: str
    era: str
    began: float
    ended: float
    failure: Failed | None = None
    # The replica that had it executed.
    replica: str = ""

    @property
    def stall(self):
        """How much longer it took than the tool."""
        return self.ended - self.began - SECONDS


class Load:
    """Clients that call an unsafe tool again and again until they are told to stop."""

    def __init__(self, name, port, clients):
        # The name is part of the ids of calls, which the server counts for as long as it runs.
        self.name, self.port, self.clients, self.outcomes, self.sessions = name, port, clients, [], []
        self.stopping, self.numbers = threading.Event(), itertools.count(1)
        self.threads, self.late = [], 0

    def __enter__(self):
        self.threads.append(threading.Thread(target=self.watch_machine, daemon=True))
        self.threads[0].start()
        for number in range(self.clients):
            for kind in (LegacyClient, ModernClient):
                # Half of them keep their connections, and two principals share the work.
                client = kind(self.port, ADA if number % 2 else BOB, keep=number % 4 < 2)
                thread = threading.Thread(target=self.work, args=(client, number), daemon=True)
                self.threads.append(thread)
                thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        end = time.monotonic() + 30
        for thread in self.threads:
            thread.join(max(0, end - time.monotonic()))
        assert not any(thread.is_alive() for thread in self.threads), "a client hangs"

    def work(self, client, number):
        era = "legacy" if isinstance(client, LegacyClient) else "modern"
        # They do not begin all at once.
        self.stopping.wait(PAUSE * number / self.clients)
        opened = self.note(f"open-{era}-{number}", era, lambda: client.open(), self.sessions)
        while not self.stopping.is_set():
            if opened.failure:
                return
            id = f"{self.name}-{next(self.numbers)}"
            self.note(id, era, lambda: client.call("s__work", {"id": id, "seconds": SECONDS}), self.outcomes)
            self.stopping.wait(PAUSE)
        client.close()

    def watch_machine(self):
        """Keeps by how many seconds this machine is late at most: a call is no quicker than the processor that it needs."""
        while not self.stopping.is_set():
            began = time.monotonic()
            time.sleep(BEAT)
            self.late = max(self.late, time.monotonic() - began - BEAT)

    def note(self, id, era, send, outcomes):
        """Sends something and keeps what became of it."""
        outcome = Outcome(id, era, time.monotonic(), 0)
        try:
            result = send()
            outcome.replica = text_of(result) if "content" in result else ""
        except Failed as failure:
            outcome.failure = failure
        outcome.ended = time.monotonic()
        outcomes.append(outcome)
        return outcome

    def failed(self):
        return [outcome for outcome in self.sessions + self.outcomes if outcome.failure]
