#!/usr/bin/python3 -I
"""A chained network plugin (CNI): wait until the agent enforces the policies of a new pod.

Its configuration names the agent's socket: {"type": "policies", "socket": PATH}.
"""

import json
import os
import socket
import sys

VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"]
TIMEOUT_SECONDS = 30.0


def request(path: str, **content: str) -> str:
    """Send a request to the agent and return its reply."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.connect(path)
        connection.sendall(json.dumps(content).encode() + b"\n")
        return connection.makefile().readline().strip()


def main() -> None:
    """Serve one call of the container runtime."""
    command, config = os.environ["CNI_COMMAND"], json.load(sys.stdin)
    if command == "VERSION":
        print(json.dumps({"cniVersion": "0.4.0", "supportedVersions": VERSIONS}))
        return
    words = os.environ.get("CNI_ARGS", "").split(";")
    uid = dict(word.split("=", 1) for word in words if "=" in word).get("K8S_POD_UID", "")
    result = config.get("prevResult") or {}
    try:
        if command == "ADD":
            for address in result.get("ips", []):
                own = address["address"].partition("/")[0]
                reply = request(config["socket"], uid=uid, address=own)
                if reply != "ok":
                    raise OSError(reply or "the agent closed the connection")
            print(json.dumps(result))
        elif command == "DEL":
            request(config["socket"], uid=uid)
    except OSError as error:
        if command == "ADD":  # a deletion must not fail
            version = config.get("cniVersion", "0.4.0")
            print(json.dumps({"cniVersion": version, "code": 11, "msg": f"policies: {error}"}))
            sys.exit(1)


if __name__ == "__main__":
    main()
