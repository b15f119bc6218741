"""Fault campaigns on this machine: real processes, real signals, a real storage emulator.

CHAOS_SEED chooses other schedules, CHAOS_JOBS the length of the campaigns.
`make chaos` draws new schedules each time.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos.report import MAX_SILENCE_SECONDS, Entry, Report, summary
from tests.support.patience import seconds

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("CHAOS_SEED", "77"))
FAKE_JOBS = int(os.environ.get("CHAOS_JOBS", "10"))
"""Jobs of each of the CAMPAIGNS with the fake trainer."""
CAMPAIGNS, REAL_JOBS = min(4, 2 * FAKE_JOBS), 4 * FAKE_JOBS // 10


def start(module: str, seed: int, folder: Path, *settings: str) -> subprocess.Popen[str]:
    """Start a campaign."""
    command = [sys.executable, "-m", module, f"SEED={seed}", f"REPORT={folder}", *settings]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(campaign: subprocess.Popen[str], folder: Path, jobs: int) -> list[Entry]:
    """Wait for the end of a campaign, of which every job must pass, and return its entries.

    Its exit code also judges the silence, which is longer on a busy machine.
    """
    output, _ = campaign.communicate()
    print(output)
    found = Report(folder).entries()
    print(summary(found))
    assert len(found) == jobs, output
    assert all(entry.passed and entry.silence <= seconds(MAX_SILENCE_SECONDS) for entry in found)
    return found


@pytest.mark.timeout(1800)
def test_jobs_of_the_fake_trainer_survive_random_faults(tmp_path: Path) -> None:
    # Jobs wait more than they compute, so several campaigns run at once.
    with ExitStack() as stack:
        campaigns = []
        for number in range(CAMPAIGNS):
            folder = tmp_path / str(number)
            settings = [f"JOBS={FAKE_JOBS}", "EPOCHS=60"]
            campaign = start("tests.support.fake_chaos", SEED + number, folder, *settings)
            stack.enter_context(campaign)
            stack.callback(campaign.terminate)
            campaigns.append((campaign, folder))
        found = [finish(campaign, folder, FAKE_JOBS) for campaign, folder in campaigns]
    # A short campaign may have only faults that no worker needs to restart for.
    assert any(entry.recoveries for entries in found for entry in entries)


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not REAL_JOBS, reason="CHAOS_JOBS is less than 3: e2e has real trainings too")
def test_real_trainings_survive_random_faults(tmp_path: Path) -> None:
    with ExitStack() as stack:
        campaign = start("chaos", SEED, tmp_path, f"JOBS={REAL_JOBS}", "EPOCHS=100")
        stack.enter_context(campaign)
        stack.callback(campaign.terminate)
        found = finish(campaign, tmp_path, REAL_JOBS)
    assert any(entry.recoveries for entry in found)
