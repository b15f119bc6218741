"""Enforce NetworkPolicies for the pods of one node, in the network namespace of the node.

    agent.py NODE SOCKET        KUBECONFIG and PATH lead to kubectl, iptables and ipset

The network plugin (plugin.py) reports each pod's address through SOCKET before the pod's first
container starts, and waits until the pod's rules are in the kernel: no pod runs without them.
It needs Python's standard library only.
"""

import json
import logging
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rules import CHAIN, Cluster, Rules, rules_of

RESOURCES = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
}
TABLE = "mangle"  # before the table filter, in which kube-proxy and docker accept packets
HOOKS = ("FORWARD", "INPUT")  # a pod's connection to a process on its node is not forwarded
WATCH_SECONDS = 600
RETRY_SECONDS = 0.5
MERGE_SECONDS = 0.02  # changes that arrive within this time are one update
PLUGIN_SECONDS = 20.0

log = logging.getLogger("policies")


class Agent:
    """Holds the cluster's objects and keeps the kernel's rules up to date.

    Args:
        node: The node's name.
    """

    def __init__(self, node: str) -> None:
        self._node, self._cluster = node, Cluster()
        self._changed = threading.Condition()
        self._listed: set[str] = set()
        self._version = self._enforced = 0  # numbers of changes: seen, and in the kernel
        self._sets: set[str] = set()
        self._chains: set[str] = set()

    def run(self) -> None:
        """Enforce policies until the process is killed."""
        for resource in RESOURCES:
            threading.Thread(target=self._follow, args=(resource,), daemon=True).start()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: len(self._listed) == len(RESOURCES) and self._version > self._enforced
                )
            time.sleep(MERGE_SECONDS)
            with self._changed:
                version, rules = self._version, rules_of(self._cluster, self._node)
            try:
                self._enforce(rules)
            except subprocess.CalledProcessError as error:
                log.error("%s: %s", error.cmd, error.stderr)
                time.sleep(RETRY_SECONDS)
                continue
            with self._changed:
                self._enforced = version
                self._changed.notify_all()

    def _follow(self, resource: str) -> None:
        """List and watch a kind of object for ever."""
        path = RESOURCES[resource]
        while True:
            try:
                listed = json.loads(_kubectl(path))
                self._replace(resource, listed["items"])
                start = listed["metadata"]["resourceVersion"]
                query = f"?watch=1&resourceVersion={start}&timeoutSeconds={WATCH_SECONDS}"
                with subprocess.Popen(
                    ["kubectl", "get", "--raw", path + query], stdout=subprocess.PIPE, text=True
                ) as watch:
                    assert watch.stdout is not None
                    for line in watch.stdout:
                        event = json.loads(line)
                        if event["type"] == "ERROR":  # the version is too old
                            break
                        self._update(resource, event)
                    watch.kill()
            except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
                log.warning("%s: %s", resource, error)
            time.sleep(RETRY_SECONDS)

    def _replace(self, resource: str, items: list[Mapping[str, Any]]) -> None:
        with self._changed:
            setattr(self._cluster, resource, {one["metadata"]["uid"]: one for one in items})
            self._listed.add(resource)
            self._note()

    def _update(self, resource: str, event: Mapping[str, Any]) -> None:
        found, uid = event["object"], event["object"]["metadata"]["uid"]
        with self._changed:
            objects = getattr(self._cluster, resource)
            if event["type"] == "DELETED":
                objects.pop(uid, None)
            else:
                objects[uid] = found
            self._note()

    def _note(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def assign(self, address: str, uid: str) -> bool:
        """Note a new pod's address; return True once its rules are in the kernel."""
        end = time.monotonic() + PLUGIN_SECONDS
        with self._changed:
            self._cluster.assigned[address] = uid
            if not self._changed.wait_for(lambda: uid in self._cluster.pods, PLUGIN_SECONDS):
                return False
            self._note()
            version = self._version
            left = max(0.0, end - time.monotonic())
            return self._changed.wait_for(lambda: self._enforced >= version, left)

    def release(self, uid: str) -> None:
        """Forget the addresses of a pod."""
        with self._changed:
            assigned = self._cluster.assigned
            self._cluster.assigned = {one: pod for one, pod in assigned.items() if pod != uid}
            self._note()

    def _enforce(self, rules: Rules) -> None:
        """Put rules into the kernel: new sets, then all chains at once, then no old sets."""
        new = [
            line
            for name, members in rules.sets.items()
            if name not in self._sets
            for line in (
                f"create {name} hash:net -exist",
                *(f"add {name} {member} -exist" for member in members),
            )
        ]
        if new:
            _run(["ipset", "restore"], "\n".join(new) + "\n")
        lines = [f"*{TABLE}", *(f":{chain} - [0:0]" for chain in rules.chains)]
        old = self._chains - rules.chains.keys()
        lines += [f":{chain} - [0:0]" for chain in sorted(old)]
        lines += [f"-A {chain} {rule}" for chain, found in rules.chains.items() for rule in found]
        lines += [f"-X {chain}" for chain in sorted(old)]
        _run(["iptables-restore", "--wait", "--noflush"], "\n".join([*lines, "COMMIT", ""]))
        for name in self._sets - rules.sets.keys():
            _run(["ipset", "destroy", name])
        self._sets, self._chains = set(rules.sets), set(rules.chains) - {CHAIN}


def hook() -> None:
    """Lead packets of pods to CHAIN. IPv6, which no pod has an address for, is dropped."""
    # Packets between pods of one bridge pass iptables, too.
    for name in ("iptables", "ip6tables"):
        Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}").write_text("1", encoding="ascii")
    iptables = ["iptables", "--wait", "--table", TABLE]
    _run([*iptables, "--new-chain", CHAIN])
    for chain in HOOKS:
        _run([*iptables, "--insert", chain, "--jump", CHAIN])
    _run(["ip6tables", "--wait", "--policy", "FORWARD", "DROP"])
    _run(
        ["ip6tables", "--wait", "--insert", "INPUT", "!", "--in-interface", "lo", "--jump", "DROP"]
    )


class Server(socketserver.ThreadingUnixStreamServer):
    """Serves the network plugin.

    Args:
        path: The socket's path.
        agent: The agent.
    """

    daemon_threads = True

    def __init__(self, path: str, agent: Agent) -> None:
        self.agent = agent
        super().__init__(path, Handler)


class Handler(socketserver.StreamRequestHandler):
    """One request of the plugin: a line of JSON; the reply is "ok", or what is missing."""

    def handle(self) -> None:
        """Answer it."""
        request = json.loads(self.rfile.readline())
        assert isinstance(self.server, Server)
        agent, uid = self.server.agent, request["uid"]
        if not request.get("address"):
            agent.release(uid)
            self.wfile.write(b"ok\n")
        elif agent.assign(request["address"], uid):
            self.wfile.write(b"ok\n")
        else:
            self.wfile.write(b"its network policies are not enforced yet\n")


def _kubectl(path: str) -> str:
    return _run(["kubectl", "get", "--raw", path])


def _run(command: list[str], given: str | None = None) -> str:
    return subprocess.run(
        command, input=given, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def main() -> None:
    """Run the agent."""
    node, path = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    hook()
    agent = Agent(node)
    threading.Thread(target=Server(path, agent).serve_forever, daemon=True).start()
    agent.run()


if __name__ == "__main__":
    main()
