"""Trainings with user models, user tables, digits and gs:// storage."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common import runs
from tests.support.training_processes import (
    FAKE_TRAINING,
    ROOT,
    SMALL,
    inference_output,
    training_processes,
)

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

SINGLE = (*SMALL, "WORKERS=1")


def test_user_model_of_the_readme_trains(start, tmp_path):
    code = re.search(r"```python\n(# my_model\.py.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert code
    (tmp_path / "my_model.py").write_text(code[1])
    assert len([line for line in code[1].splitlines() if line.strip()]) < 20
    process = start(tmp_path, *SINGLE, "MODEL=my_model:build", PYTHONPATH=str(tmp_path))
    assert process.wait() == 0, process.output
    assert (tmp_path / "my-model-build" / "result.json").exists()


@pytest.mark.default
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def build(f, s):\n    return 3",
            "returned an object of type int: the factory must return a Keras model",
        ),
        ("def build(f, s):\n    return f / 0", "ZeroDivisionError: division by zero at"),
        ("import nothing_here", "No module named 'nothing_here'"),
        ("def build(features):\n    return 3", "defined as `def build(features)` at "),
        (
            "def build(f, s, *, more):\n    return 3",
            "change its parameters to (features, settings)",
        ),
        ("build = print", "is a builtin_function_or_method: it must be a function"),
        ("build = 3", "is a int: it must be a function"),
        ("class build:\n    def __init__(self, f, s): ...", "is a class: it must be a function"),
        ("import sys\nsys.exit(0)", "SystemExit: 0 at "),
        ("def build(f, s):\n    exit('bye')", "SystemExit: bye at "),
        ("x = 1\nraise OSError('no\\nroom')", "OSError: no room at "),
        ("def build(f, s:", "SyntaxError: "),
        (
            "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\n"
            "def build(f, s):\n    raise Odd",
            "Odd: (its text can't be shown) at ",
        ),
        ("x = 1", "module 'user_code' has no 'build'"),
    ],
)
def test_error_in_user_model_is_one_sentence(tmp_path, code, message, monkeypatch):
    from common.errors import SettingsError
    from common.models import build_model
    from common.settings import Settings

    (tmp_path / "user_code.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("user_code", None)
    with pytest.raises(SettingsError) as error:
        build_model(2, Settings.from_values(model="user_code:build"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.default
def test_verbose_shows_the_user_part_of_a_traceback(tmp_path, monkeypatch, caplog):
    from common.errors import SettingsError
    from common.models import build_model
    from common.settings import Settings

    (tmp_path / "deep_code.py").write_text(
        "def inner():\n    return {}['x']\n\n\ndef build(f, s):\n    return inner()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match=r"KeyError: 'x' at .*deep_code\.py:2"):
        build_model(2, Settings.from_values(model="deep_code:build"))
    assert not caplog.messages
    with pytest.raises(SettingsError):
        build_model(2, Settings.from_values(model="deep_code:build", verbose=True))
    (shown,) = caplog.messages
    assert "return inner()" in shown
    assert "return {}['x']" in shown
    assert "common/models" not in shown


CALLED = """
from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras, tf
import cirq, sympy

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, angles, training=None):
        {line}

class Inner(keras.layers.Layer):
    def call(self, angles):
        return {{}}["inside"]

def build(features, settings):
    return Model()
"""


@pytest.mark.default
@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("return self.dense(angles) / (1 / 0 )", "ZeroDivisionError: division by zero"),
        ("return self.dense(angles) * float(angles.numpy()[0, 0])", "has no attribute 'numpy'"),
        ("if training: raise KeyError('training')", "KeyError: 'training'"),
        ("return tf.matmul(angles, tf.zeros([7, 1]))", "Matrix size-incompatible"),
        ("return tf.reshape(self.dense(angles), [32, 1])", "the requested shape has 32"),
    ],
)
def test_error_in_call_of_user_model_is_one_sentence(tmp_path, line, cause, monkeypatch):
    from common.errors import SettingsError
    from common.models import build_model
    from common.settings import Settings

    name = f"called_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(CALLED.format(line=line))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError) as error:
        build_model(2, Settings.from_values(model=f"{name}:build"))
    message = str(error.value)
    assert message.startswith(f"MODEL={name}:build failed: ")
    assert cause in message
    assert message.endswith(f" at {tmp_path}/{name}.py:12")
    assert "\n" not in message
    assert "{{" not in message


@pytest.mark.default
def test_error_in_user_layer_names_its_line(tmp_path, monkeypatch):
    from common.errors import SettingsError
    from common.models import build_model
    from common.settings import Settings

    code = CALLED.format(line="return self.dense(Inner()(angles))")
    (tmp_path / "called_inside.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match=r"KeyError: 'inside' at .*called_inside\.py:16$"):
        build_model(2, Settings.from_values(model="called_inside:build"))


@pytest.mark.default
@pytest.mark.parametrize(
    ("raised", "expected"),
    [(KeyError("a bug"), KeyError), (ValueError("angles have shape"), None)],
)
def test_bug_in_qfleet_stays_a_traceback(tmp_path, raised, expected, monkeypatch):
    from common.errors import SettingsError
    from common.models import build_model
    from common.settings import Settings
    from qfleet.tensorflow.layers import Expectation

    line = (
        "return Expectation(cirq.Circuit(cirq.rx(sympy.Symbol('x'))(cirq.q(0))), ['x'],"
        " [cirq.Z(cirq.q(0))])(angles[:, :1])"
    )
    (tmp_path / "called_bug.py").write_text(CALLED.format(line=line))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("called_bug", None)

    def broken(layer, inputs):
        raise raised

    place = f"{ROOT}/qfleet/tensorflow/layers/expectation.py"  # as if it were defined there
    broken.__code__ = broken.__code__.replace(co_filename=place)
    monkeypatch.setattr(Expectation, "call", broken)
    with pytest.raises(expected or SettingsError):
        build_model(2, Settings.from_values(model="called_bug:build"))


def test_error_in_subclassed_model_exits_2(start, tmp_path):
    (tmp_path / "failing.py").write_text(CALLED.format(line="return angles.numpy()"))
    process = start(tmp_path, *SINGLE, "MODEL=failing:build", PYTHONPATH=str(tmp_path))
    assert process.wait() == 2
    assert f"object has no attribute 'numpy' at {tmp_path}/failing.py:12" in process.output
    assert "Traceback" not in process.output


@pytest.mark.nightly
def test_subclassed_model_trains_and_predicts(start, tmp_path):
    """Its first call must create variables on all workers together."""
    (tmp_path / "subclassed.py").write_text(
        CALLED.format(line="return self.dense(tf.concat([tf.cos(angles), tf.sin(angles)], 1))")
    )
    process = start(tmp_path, *SMALL, "MODEL=subclassed:build", PYTHONPATH=str(tmp_path))
    assert process.wait() == 0, process.output
    # The module lies in STORAGE, so inference needs its name again.
    refused = start(tmp_path, module="inference", PYTHONPATH=str(tmp_path))
    assert refused.wait() == 2
    assert "set MODEL=subclassed:build" in refused.output
    inference = start(
        tmp_path, "MODEL=subclassed:build", module="inference", PYTHONPATH=str(tmp_path)
    )
    assert inference.wait() == 0, inference.output


def test_user_table_trains_multi_filter_and_predicts(start, tmp_path):
    generator = np.random.default_rng(3)
    features = generator.normal(size=(240, 5))
    labels = np.where(features[:, 0] + features[:, 1] > 0, "yes", "no")
    table = pd.DataFrame(features, columns=list("abcde")).assign(label=labels)
    table.to_csv(tmp_path / "user.csv", index=False)
    settings = ("QUBITS=3", "INITIALIZATIONS=1", "EPOCHS=15", "PROFILER_PORT=0", "WORKERS=1",
                f"DATA={tmp_path}/user.csv", "MODEL=multi-filter", "FILTERS=2",
                "RUN=r")  # fmt: skip
    process = start(tmp_path, *settings)
    assert process.wait() == 0, process.output
    (tmp_path / "new.csv").write_text("e,d,c,b,a\n0,0,0,2,2\n0,0,0,-2,-2\n")
    inference_output(tmp_path, f"INPUT={tmp_path}/new.csv")
    (predictions,) = (tmp_path / "r" / "predictions").glob("*.csv")
    assert list(pd.read_csv(predictions)["predicted_label"]) == ["yes", "no"]


@pytest.mark.nightly
def test_digits_reach_logistic_regression(start, tmp_path):
    process = start(tmp_path, "DATA=digits", "WORKERS=1", "PROFILER_PORT=0", "RUN=r")
    assert process.wait() == 0, process.output
    printed = inference_output(tmp_path)
    ours = runs.Run.at(tmp_path, "r").result()["metrics"]["test"]["accuracy"]
    line = next(line for line in printed.splitlines() if "logistic" in line.lower())
    theirs = float(re.findall(r"\d\.\d+|\d+(?:\.\d+)? ?%", line)[0].rstrip(" %"))
    theirs = theirs / 100 if theirs > 1 else theirs
    assert ours >= theirs - 5e-4  # printed with three digits


@pytest.mark.nightly
def test_training_on_flaky_gs_storage(start, tmp_path, flaky_gs):
    """Every third request fails. The run is loaded from there afterwards."""
    from common import storage

    process = start(str(flaky_gs), *SMALL, "LOG_UPLOAD_INTERVAL=0.5")
    assert process.wait() == 0, process.output
    run = runs.Run.at(storage.path(str(flaky_gs)), "hybrid")
    assert [line["epoch"] for line in run.metrics()] == list(range(1, 13))
    assert {path.name for path in storage.children(run.path)} >= {
        "run.json", "result.json", "metrics.jsonl", "logs", "text", "model", "checkpoints",
    }  # fmt: skip
    text = storage.read_bytes(run.text_log(1, 1)).decode()
    assert "Traceback" not in text
    loaded = runs.load("hybrid", storage=str(flaky_gs))
    result = json.dumps(loaded.result["metrics"])
    assert "mse" in result
    assert loaded.model(np.zeros((1, 2), np.float32)).shape == (1, 1)


@pytest.mark.default
def test_missing_bucket_exits_2(start, gs):
    process = start("gs://no-such-bucket-here/runs", *SINGLE, module=FAKE_TRAINING)
    assert process.wait(60) == 2
    assert "bucket gs://no-such-bucket-here does not exist" in process.output
    assert "Traceback" not in process.output


@pytest.mark.default
def test_help_and_misspelt_setting_are_quick():
    def call(*args: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "training", *args], capture_output=True, text=True, cwd=ROOT
        )

    assert "EPOCHS" in call("--help").stdout
    wrong = call("EPOCS=5")
    assert (wrong.returncode, wrong.stderr) == (
        2, "qfleet: EPOCS is not a setting: did you mean EPOCHS?\n",
    )  # fmt: skip
    assert Path(ROOT / "Makefile").exists()
