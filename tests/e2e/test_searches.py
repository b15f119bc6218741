"""A search whose seeds are pods of a real cluster."""

import subprocess
import sys

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import in_
from tests.support.patience import seconds

SEARCH = (
    *("NAME=s", "DATA=tfim:4:1.0", "METHOD=evolution", "BUDGET=60000evaluations", "SEEDS=0,7"),
    *("CPU=1", "MEMORY=2Gi"),
)


@pytest.mark.nightly
def test_killed_search_follows_its_pods(cluster: str) -> None:
    """The Job is that of the first start, and nothing is left of it in the end."""
    with places.namespace("searches") as place:
        words = [sys.executable, "-m", "studies.search", "TARGET=k8s", in_(place), *SEARCH]
        options = {
            "cwd": kube.ROOT, "env": kube.patient(), "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True,
        }  # fmt: skip
        first = subprocess.Popen(words, **options)  # type: ignore[call-overload]
        name = kube.until(
            lambda: kube.kubectl("get", "jobs", "--output=name", "--namespace", place), 120, "a job"
        )
        assert name.strip() == "job.batch/qfleet-s-search"
        first.kill()
        first.communicate()
        second = subprocess.Popen(words, **options)  # type: ignore[call-overload]
        output, _ = second.communicate(timeout=seconds(240))
        assert second.returncode == 0, output
        assert "job qfleet-s-search already exists; following it" in output
        assert "Pareto front" in output
        assert "TARGET=k8s" in output
        assert not kube.kubectl("get", "jobs", "--output=name", "--namespace", place)
