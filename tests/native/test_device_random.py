"""Three hundred random circuits of all size classes on the device, compared with the CPU."""

import pytest

from tests.native.test_device_engine import check_hvp, check_states, check_values
from tests.support.device_circuits import TOLERANCE, compile_pair
from tests.support.device_library import build_device_library

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

CIRCUITS = {width: 32 if width < 8 else 20 if width < 11 else 4 for width in range(1, 15)}
BATCHES = (1, 5, 33, 2, 17, 7)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("width", CIRCUITS)
def test_random_circuits_equal_those_of_the_cpu(width: int) -> None:
    for seed in range(CIRCUITS[width]):
        dtype = list(TOLERANCE)[seed % 2]
        batch = BATCHES[seed % len(BATCHES)] if width < 8 else 1 + seed % 3
        check_values(width, 10 + seed, batch, dtype)
        if seed % 4 == 1:
            check_states(width, 10 + seed, batch, dtype)
        if seed % 4 == 3:
            check_hvp(width, 10 + seed, batch, dtype, "both")
    compile_pair.cache_clear()
