"""The script of Slurm for the seeds of a search."""

import re
import subprocess
from pathlib import Path

from studies.search import seed_task
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.slurm_seeds import SlurmSeeds


def test_task_of_slurm_searches_the_seed_of_its_number(tmp_path: Path) -> None:
    args = (
        "NAME=s",
        "DATA=tfim:4:1.0",
        "SEEDS=3,4,9",
        "TARGET=slurm",
        "CPU=2",
        "PARALLELISM=2",
        "QUBITS=4",
    )
    one, folder = SearchDefinition.from_args(args), SearchFolder(tmp_path, "s")
    script = SlurmSeeds(args, one, folder).script([3, 9]).render()
    assert "#SBATCH --array=3,9%2\n" in script
    assert "#SBATCH --cpus-per-task=2\n" in script
    assert f" -m {seed_task.__name__} " in script
    assert re.search(r"^ *9\) settings\+=\(SEEDS=9\) ;;$", script, re.MULTILINE)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
