"""The tools below tools/: tests affected by a change."""

import pytest

from tools import changed_tests


# One test, since each process would parse all modules again.
def test_affected_tests_follow_imports_programs_and_names() -> None:
    found = changed_tests.affected_tests({"common/text.py"})
    assert "tests/unit/test_text.py" in found  # in a function
    assert "tests/unit/qfleet/test_synthesis.py" not in found
    found = changed_tests.affected_tests({"planning/__main__.py"})
    assert "tests/integration/test_planner.py" in found
    found = changed_tests.affected_tests({"qfleet/native/cpu/kernels.cc"})
    assert "tests/unit/qfleet/test_native.py" in found
    assert "tests/unit/test_text.py" not in found
    unknown = "".join(reversed("zyx.eman-nwonknu"))  # this file must not mention it
    assert changed_tests.affected_tests({f"nowhere/{unknown}"}) == []


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements/worker.txt"])
def test_affected_tests_of_a_fundamental_file_are_all(name: str) -> None:
    found = changed_tests.affected_tests({name})
    assert "tests/unit/test_text.py" in found
    assert "tests/unit/qfleet/test_native.py" in found
