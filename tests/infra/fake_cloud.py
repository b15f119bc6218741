"""A Google Cloud in a file, and the programs that speak to it: gcloud, kubectl, curl.

Run as `fake_cloud.py PROGRAM ARGUMENTS...`; QFLEET_CLOUD names the file. Each call is recorded in
it first of all. What the scripts should never say ends with code 64. State is kept as the real
programs' lists show it, and printed by the --format that is asked for. A fault is an entry of
`faults`: the call whose words contain `where` fails with `says`, `times` times, having done its
work first where `late` is set.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

Words = list[str]
PROJECT = "my-project"


def new() -> dict[str, Any]:
    """A project with billing and nothing in it, and a user who may do everything."""
    return {
        "person": "ada@example.com",
        "projects": [PROJECT],
        "billing": True,
        "denied": [],
        "apis": [],
        "quotas": {"CPUS": [24, 0], "N2D_CPUS": [24, 0], "IN_USE_ADDRESSES": [8, 0]},
        "everywhere": {"CPUS_ALL_REGIONS": [32, 0]},
        "machines": {"n2d-standard-4": 4, "n2d-standard-8": 8, "e2-standard-4": 4},
        "networks": ["default"],
        "clusters": [],
        "pools": [],
        "buckets": [],
        "repositories": [],
        "accounts": [],
        "policies": [],
        "operator": None,
        "namespaces": ["default"],
        "contexts": [],
        "calls": [],
        "faults": [],
    }


class Call:
    """One call taken apart: words, and flags by name."""

    def __init__(self, arguments: Words) -> None:
        self.words = [word for word in arguments if not word.startswith("--")]
        flags = [word[2:].partition("=") for word in arguments if word.startswith("--")]
        self.flags = {name: value for name, _, value in flags}

    def show(self, rows: list[dict[str, Any]]) -> None:
        """Print rows as --flatten and --format say."""
        if name := self.flags.get("flatten"):
            rows = flattened(rows, name.removesuffix("[]"))
        keys = self.flags["format"].partition('"](')[2][:-1]
        for row in rows:
            print("|".join(looked_up(row, key) for key in keys.split(",")))


def flattened(rows: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    """A row for each item of the list at `path`, put in its place: bindings[].members."""
    outer, _, inner = path.partition("[].")
    rows = [{**row, outer: item} for row in rows for item in row.get(outer, [])]
    if not inner:
        return rows
    return [{outer: {**row[outer], inner: item}} for row in rows for item in row[outer][inner]]


def looked_up(row: Any, key: str) -> str:
    """A field as gcloud prints it."""
    if key.endswith(".basename()"):
        return looked_up(row, key.removesuffix(".basename()")).rsplit("/", 1)[-1]
    for part in key.split("."):
        row = (row or {}).get(part)
    return "" if row is None else str(row)


def unlike(arguments: Words) -> None:
    print(f"no such call: {arguments}", file=sys.stderr)
    sys.exit(64)


def missing(what: str) -> None:
    print(f"ERROR: {what} was not found or is not yours", file=sys.stderr)
    sys.exit(1)


def labelled(flags: dict[str, str], name: str = "labels") -> dict[str, str]:
    text = flags.get(name, "")
    return dict([text.split("=")]) if text else {}


def policy(cloud: dict[str, Any], call: Call, what: str, verb: str) -> None:
    """get-, add- and remove-iam-policy-binding of anything."""
    mine = [entry for entry in cloud["policies"] if entry[0] == what]
    if verb == "get-iam-policy":
        bindings = [
            {"role": role, "members": [member], "condition": {"title": _title(*condition)}}
            for _, role, member, *condition in mine
        ]
        return call.show([{"bindings": bindings}])
    entry = [what, call.flags["role"], call.flags["member"]]
    if call.flags.get("condition", "None") != "None":
        entry.append(call.flags["condition"])
    if verb == "add-iam-policy-binding" and entry not in cloud["policies"]:
        cloud["policies"].append(entry)
    if verb == "remove-iam-policy-binding":
        cloud["policies"].remove(entry)
    return None


def _title(condition: str = "") -> str:
    return condition.partition("title=")[2].partition(";")[0]


def gcloud(cloud: dict[str, Any], arguments: Words) -> None:
    """The calls of gcloud that the scripts may make."""
    call = Call(arguments)
    flags = call.flags
    # A flag's value never stands apart from it, so all words are the command's, then a name.
    match call.words:
        case ["auth", "list"]:
            print(cloud["person"])
        case ["auth", "print-access-token"]:
            print("secret-token")
        case ["projects", "describe", name]:
            if name not in cloud["projects"]:
                missing(name)
        case ["billing", "projects", "describe", _]:
            print(cloud["billing"])
        case ["services", "list"]:
            call.show([{"config": {"name": name}} for name in cloud["apis"]])
        case ["services", "enable", *names]:
            cloud["apis"] += names
        case ["compute", "networks", "list"]:
            call.show([{"name": name} for name in cloud["networks"]])
        case ["compute", "machine-types", "list"]:
            call.show(
                [{"name": name, "guestCpus": cpus} for name, cpus in cloud["machines"].items()]
            )
        case ["compute", "regions", "describe", _] | ["compute", "project-info", "describe"]:
            quotas = cloud["quotas" if "regions" in arguments else "everywhere"]
            rows = [
                {"metric": name, "limit": float(limit), "usage": float(used)}
                for name, (limit, used) in quotas.items()
            ]
            call.show([{"quotas": rows}])
        case ["iam", "service-accounts", verb, *names]:
            accounts(cloud, call, verb, names)
        case ["projects", verb, name] if "iam-policy" in verb:
            policy(cloud, call, name, verb)
        case ["artifacts", "repositories", verb, *names]:
            repositories(cloud, call, verb, names)
        case ["storage", *rest]:
            storage(cloud, call, rest)
        case ["container", "clusters", verb, *names]:
            clusters(cloud, call, verb, names)
        case ["container", "node-pools", verb, *names]:
            pools(cloud, call, verb, names)
        case _:
            unlike([*arguments, str(flags)])


def accounts(cloud: dict[str, Any], call: Call, verb: str, names: Words) -> None:
    if verb == "list":
        call.show(cloud["accounts"])
    elif verb == "create":
        email = f"{names[0]}@{PROJECT}.iam.gserviceaccount.com"
        cloud["accounts"].append({"email": email, "description": call.flags["description"]})
    elif verb == "delete":
        cloud["accounts"] = [one for one in cloud["accounts"] if one["email"] != names[0]]
    else:
        policy(cloud, call, names[0], verb)


def repositories(cloud: dict[str, Any], call: Call, verb: str, names: Words) -> None:
    path = f"projects/{PROJECT}/locations/{call.flags['location']}/repositories/"
    if verb == "list":
        call.show(cloud["repositories"])
    elif verb == "create":
        cloud["repositories"].append({"name": path + names[0], "labels": labelled(call.flags)})
    elif verb == "delete":
        kept = [one for one in cloud["repositories"] if one["name"] != path + names[0]]
        cloud["repositories"] = kept
    else:
        policy(cloud, call, f"repository {names[0]}", verb)


def storage(cloud: dict[str, Any], call: Call, words: Words) -> None:
    bucket = words[-1].removeprefix("gs://").split("/")[0]
    found = [one for one in cloud["buckets"] if one["name"] == bucket]
    match words:
        case ["buckets", "list"]:
            call.show([one for one in cloud["buckets"] if not one.get("elsewhere")])
        case ["buckets", "create", _]:
            about = {"flags": sorted(call.flags), "labels": {}, "objects": {}}
            cloud["buckets"].append({"name": bucket, **about})
        case _ if not found:
            missing(f"gs://{bucket}")
        case ["buckets", "describe", _]:
            print(bucket)
        case ["buckets", "update", _]:
            found[0]["labels"].update(labelled(call.flags, "update-labels"))
        case ["buckets", verb, _] if "iam-policy" in verb:
            policy(cloud, call, f"gs://{bucket}", verb)
        case ["ls", _]:
            folders = {tuple(name.split("/")[:2]) for name in found[0]["objects"]}
            for top, inner in sorted(folders):
                print(f"gs://{bucket}/{top}/:\ngs://{bucket}/{top}/{inner}/\n")
        case ["du", _]:
            print(sum(found[0]["objects"].values()), f"gs://{bucket}", sep="  ")
        case ["rm", _] if "recursive" in call.flags:
            cloud["buckets"].remove(found[0])
        case _:
            unlike(words)


def clusters(cloud: dict[str, Any], call: Call, verb: str, names: Words) -> None:
    flags = call.flags
    if verb == "list":
        call.show(cloud["clusters"])
        for one in cloud["clusters"]:  # what was started is done by the next look
            one["status"] = "RUNNING" if one["status"] == "PROVISIONING" else one["status"]
        return
    if verb == "create":
        cloud["clusters"].append(
            {
                "name": names[0],
                "location": flags["location"],
                "status": "RUNNING",
                "resourceLabels": labelled(flags),
                "workloadIdentityConfig": {"workloadPool": flags["workload-pool"]},
                "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH"},
            }
        )
        return
    where = (names[0], flags["location"])
    if where not in [(one["name"], one["location"]) for one in cloud["clusters"]]:
        missing(names[0])
    if verb == "delete":
        cloud["clusters"] = [one for one in cloud["clusters"] if one["name"] != names[0]]
        cloud["pools"] = [one for one in cloud["pools"] if one["cluster"] != names[0]]
    elif verb == "update":
        pool = next(one for one in cloud["pools"] if one["name"] == flags["node-pool"])
        pool["autoscaling"] = scaling(flags)
    elif verb == "get-credentials":
        cloud["contexts"].append(f"gke_{PROJECT}_{flags['location']}_{names[0]}")
    else:
        unlike([verb, *names])


def scaling(flags: dict[str, str]) -> dict[str, int]:
    """As the API shows it: a minimum of 0 is left out."""
    least, most = int(flags["min-nodes"]), int(flags["max-nodes"])
    return {"maxNodeCount": most} | ({"minNodeCount": least} if least else {})


def pools(cloud: dict[str, Any], call: Call, verb: str, names: Words) -> None:
    flags = call.flags
    mine = [one for one in cloud["pools"] if one["cluster"] == flags["cluster"]]
    if verb == "list":
        call.show(mine)
    elif verb == "create":
        config = {
            "resourceLabels": labelled(flags),
            "machineType": flags["machine-type"],
            "spot": "spot" in flags or None,
        }
        pool = {"name": names[0], "cluster": flags["cluster"], "status": "RUNNING"}
        cloud["pools"].append({**pool, "config": config, "autoscaling": scaling(flags)})
    elif verb == "delete":
        cloud["pools"] = [one for one in cloud["pools"] if one["name"] != names[0]]
    else:
        unlike([verb, *names])


def kubectl(cloud: dict[str, Any], arguments: Words) -> None:
    """The calls of kubectl, all of which must name a context that credentials were fetched for."""
    call = Call(arguments)
    if call.flags.get("context") not in cloud["contexts"]:
        missing(f"context {call.flags.get('context')}")
    operator = cloud["operator"]
    match call.words:
        case ["get", "deployments"]:
            names = "training-operator" if operator else ""
            print(f"{names}/{(operator or {}).get('managed-by', '')}", end="")
        case ["apply"] if "v1.9.4" in call.flags["kustomize"]:
            cloud["operator"] = operator or {}
        case ["label", "deployment/training-operator", label]:
            cloud["operator"] = dict([label.split("=")])
        case ["get", "namespaces"]:
            wanted = call.flags["field-selector"].removeprefix("metadata.name=")
            print(*(f"namespace/{name}" for name in cloud["namespaces"] if name == wanted))
        case ["create", "namespace", name]:
            cloud["namespaces"].append(name)
        case ["rollout", "status", "deployment/training-operator"]:
            print("successfully rolled out")
        case _:
            unlike(arguments)


def curl(cloud: dict[str, Any], arguments: Words) -> None:
    """testIamPermissions, asked with the token on stdin."""
    if "secret-token" not in sys.stdin.read() or not arguments[-1].endswith(
        f"/v1/projects/{PROJECT}:testIamPermissions"
    ):
        unlike(arguments)
    asked = json.loads(arguments[arguments.index("--data") + 1])["permissions"]
    print(json.dumps({"permissions": [one for one in asked if one not in cloud["denied"]]}))


def main() -> int:
    path = Path(os.environ["QFLEET_CLOUD"])
    cloud = json.loads(path.read_text())
    program, arguments = sys.argv[1], sys.argv[2:]
    cloud["calls"].append([program, *arguments])
    path.write_text(json.dumps(cloud))
    said = " ".join([program, *arguments])
    fault = next((one for one in cloud["faults"] if one["where"] in said and one["times"]), None)
    if fault:
        fault["times"] -= 1
    if not fault or fault.get("late"):
        programs = {"gcloud": gcloud, "kubectl": kubectl, "curl": curl}
        if program in programs:
            programs[program](cloud, arguments)
    path.write_text(json.dumps(cloud))
    if fault:
        print(fault["says"], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
