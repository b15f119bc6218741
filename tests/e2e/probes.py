"""Pods that open connections, and programs that answer them."""

import json
import re
import time
from collections.abc import Mapping

from tests.e2e import kube

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: %(labels)s}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: probe
      image: %(image)s
      command: [python, -c, %(program)s]
      ports: [{name: web, containerPort: 8080}]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""

ECHO = """
import socket, threading
def serve(port):
    with socket.create_server(("", port)) as server:
        while True:
            with server.accept()[0] as peer:
                peer.sendall(peer.recv(100).upper())
def answer():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", 5353))
        while True:
            data, sender = server.recvfrom(100)
            server.sendto(data.upper(), sender)
for port in (8080, 8081, 2222):
    threading.Thread(target=serve, args=(port,)).start()
answer()
"""
"""Sends back what it receives, at TCP 8080, 8081 and 2222, and at UDP 5353."""

ASK = """
import socket, sys
host, port, protocol = sys.argv[1], int(sys.argv[2]), sys.argv[3]
kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
with socket.socket(socket.AF_INET, kind) as connection:
    connection.settimeout(2)
    try:
        connection.connect((host, port))
        if protocol != "open":
            connection.sendall(b"ping")
            assert connection.recv(100) == b"PING"
        print("open")
    except OSError as error:
        print("closed", error)
"""
"""Connects; except for the protocol `open`, data must come back."""


def image() -> str:
    """Return the image of the storage emulator, the smallest with Python."""
    (found,) = re.findall(
        r"image: (\S*qfleet-storage\S*)", (kube.ROOT / "k8s/qcnn.yaml").read_text()
    )
    return found


def start(name: str, program: str = ECHO, *, namespace: str, **labels: str) -> None:
    """Create a pod; underscores in names of labels become `/` and `-` as `part_of` does."""
    text = POD % {
        "name": name, "labels": json.dumps(labels), "image": image(),
        "program": json.dumps(program),
    }  # fmt: skip
    kube.kubectl("apply", f"--namespace={namespace}", "-f", "-", given=text)


def wait(*names: str, namespace: str) -> None:
    """Wait until pods run."""
    targets = [f"pod/{name}" for name in names]
    kube.kubectl("wait", "--for=condition=Ready", *targets, f"--namespace={namespace}", timeout=60)


def address(name: str, namespace: str) -> str:
    """Return a pod's address."""
    return str(
        json.loads(kube.kubectl("get", "pod", name, f"--namespace={namespace}", "-o", "json"))[
            "status"
        ]["podIP"]
    )


def reaches(
    pod: str, host: str, port: int, protocol: str = "tcp", *, namespace: str, container: str = ""
) -> bool:
    """Return True if a connection from a running pod succeeds."""
    words = [f"--namespace={namespace}", *([f"--container={container}"] if container else [])]
    output = kube.kubectl("exec", pod, *words, "--", "python", "-c", ASK, host, str(port), protocol)
    return output.startswith("open")


def first_connection(host: str, port: int, *, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return True if the first thing that a new pod does, a connection, succeeds."""
    name = f"new-{time.monotonic_ns()}"
    words = f"import sys; sys.argv = ['', {host!r}, '{port}', 'tcp']\n"
    start(name, words + ASK, namespace=namespace, **labels)
    output = kube.until(
        lambda: kube.kubectl("logs", name, f"--namespace={namespace}", check=False),
        60,
        "the pod's output",
    )
    kube.kubectl("delete", "pod", name, f"--namespace={namespace}", "--wait=false")
    return str(output).startswith("open")
