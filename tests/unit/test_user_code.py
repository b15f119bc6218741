"""A user's model is imported only by the user's word, or if its source is the recorded one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common import import_path, user_code
from common.errors import SettingsError
from common.settings import Settings
from common.user_code import UserCode, digests, find_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a model, which leaves a trace if it is imported."""
    code = "from pathlib import Path\nPath('trace').write_text('ran')\ndef build(f, s): ...\n"
    (tmp_path / "handmade.py").write_text(code)
    (tmp_path / "runs" / "received").mkdir(parents=True)
    (tmp_path / "runs" / "received" / "payload.py").write_text(code)
    package = tmp_path / "parcel"
    package.mkdir()
    (package / "__init__.py").write_text(code)
    (package / "net.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(code: UserCode, model: str, source: dict | None) -> str:
    try:
        code.require(model, source)
    except SettingsError as error:
        return str(error)
    return ""


def test_no_part_of_this_installation_is_a_users_model() -> None:
    folders = {path.parent for path in user_code.ROOT.glob("[a-z]*/*.py")}
    assert len(folders) > 10
    assert folders <= set(user_code._OWN_FOLDERS)


def test_named_model_and_built_in_model_need_no_source(folder: Path) -> None:
    assert not refusal(UserCode("handmade:build"), "handmade:build", None)
    assert not refusal(UserCode(), "hybrid", None)
    assert "set MODEL=handmade:other" in refusal(UserCode("handmade:build"), "handmade:other", None)


def test_recorded_source_permits_the_model(folder: Path) -> None:
    for module in ("handmade", "parcel.net"):
        source = digests(module)
        assert source is not None
        assert not refusal(UserCode(), f"{module}:build", source)
    (folder / "parcel" / "__init__.py").write_text("changed = True")
    assert "not the one" in refusal(UserCode(), "parcel.net:build", source)
    assert not (folder / "trace").exists()


def test_source_among_the_runs_is_refused(folder: Path) -> None:
    module = "runs.received.payload"
    assert find_files(module) == {
        "runs": None, "runs.received": None, module: folder / "runs/received/payload.py",
    }  # fmt: skip
    code = UserCode(folders=(folder / "runs",))
    assert "lies among the runs" in refusal(code, f"{module}:build", digests(module))
    assert not refusal(UserCode(f"{module}:build"), f"{module}:build", None)


def test_link_to_the_runs_is_refused(folder: Path) -> None:
    (folder / "innocent.py").symlink_to(folder / "runs/received/payload.py")
    code = UserCode(folders=(folder / "runs",))
    assert "lies among the runs" in refusal(code, "innocent:build", digests("innocent"))


@pytest.mark.parametrize(
    "model",
    ["runpy:run_path", "shutil:rmtree", "os:remove", "pydoc:locate", "numpy.lib.npyio:load",
     "common.runs.registry:delete", "examples.custom_model.model:build", "builtins:exec",
     "math:sin", "nothing_of_this_name:f", "h5py._errors:x"],
)  # fmt: skip
def test_library_is_refused_even_with_its_digest(model: str) -> None:
    module = model.partition(":")[0]
    assert refusal(UserCode(), model, digests(module) or {module: "0" * 64})


def test_other_module_in_use_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = type(sys)("handmade")
    other.__file__ = str(folder / "elsewhere.py")
    monkeypatch.setitem(sys.modules, "handmade", other)
    assert "another module" in refusal(UserCode(), "handmade:build", digests("handmade"))


def test_find_files_imports_nothing(folder: Path) -> None:
    assert find_files("parcel.net") == {
        "parcel": folder / "parcel/__init__.py", "parcel.net": folder / "parcel/net.py",
    }  # fmt: skip
    for missing in ("parcel.none", "handmade.inner", "none", "..", "parcel..net", "a" * 300):
        assert find_files(missing) is None
    assert not (folder / "trace").exists()


def test_current_folder_is_searched_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", os.getcwd())])
    user_code.add_current_folder()
    user_code.add_current_folder()
    assert sys.path[-1] == ""
    assert sys.path.count("") == 1


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("def build(features, settings): ...", ""),
        ("def build(f, s, outputs): ...", ""),
        ("def build(f, /, *rest, outputs=3): ...", ""),
        ("def build(f, s, x=1, **more): ...\nif __name__ == '__main__':\n    build(1, 2)", ""),
        ("from elsewhere import build", ""),
        ("import elsewhere.build as build", ""),
        ("from elsewhere import *", ""),
        ("build = functools.partial(make, 3)", ""),
        ("try:\n    from fast import build\nexcept ImportError:\n    build = None", ""),
        ("@decorated\ndef build(): ...", ""),
        ("def build(): ...\nbuild = wrapped(build)", ""),
        ("def __getattr__(name): ...", ""),
        ("globals()['build'] = print", ""),
        ("def set():\n    global build\n    build = 3\nset()", ""),
        ("for build in (print,): pass", ""),
        ("def biuld(features, settings): ...", "has no 'build'"),
        ("class Net:\n    def build(self, features): ...", "has no 'build'"),
        ("def other(build):\n    build = 3", "has no 'build'"),
        ("print(build)", "has no 'build'"),
        ("import build.net as other", "has no 'build'"),
        ("class build: ...", "is a class"),
        ("def build(features): ...", "at module.py:1"),
        ("def build(f, s, third): ...", "at module.py:1"),
        ("def build(f, s, *, name): ...", "at module.py:1"),
        ("def build(f, s:", "SyntaxError"),
        ("def build(f, s): ...\nreturn 3", "SyntaxError"),
        ("build = '\x00'", "module.py"),
    ],
)
def test_source_that_cannot_work_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, refused: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("module.py").write_text(source)
    title = "MODEL=module:build"
    if not refused:
        user_code.check_source(title, Path("module.py"), ("features", "settings"))
        return
    with pytest.raises(SettingsError, match=refused) as error:
        user_code.check_source(title, Path("module.py"), ("features", "settings"))
    assert str(error.value).startswith(title)


BUILD = "def build(features, settings): ..."


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        (f"import nowhere.net\n{BUILD}", "nowhere"),
        (f"'A net.'\nimport json, nowhere as net\n{BUILD}", "nowhere"),
        (f"from nowhere.net import layer\n{BUILD}", "nowhere"),
        (f"try:\n    import nowhere\nexcept ImportError:\n    pass\n{BUILD}", ""),
        (f"import sys\nsys.path.append('lib')\nimport nowhere\n{BUILD}", ""),
        (f"from . import nowhere\n{BUILD}", ""),
        (f"import parcel.net, numpy\n{BUILD}", ""),
    ],
)
def test_missing_import_is_refused_before_the_start(
    folder: Path, source: str, missing: str
) -> None:
    (folder / "importing.py").write_text(source)
    settings = Settings.from_args(["MODEL=importing:build"])
    if not missing:
        user_code.check_functions(settings)
        return
    with pytest.raises(SettingsError, match=f"MODEL=importing:build imports '{missing}' at .*:"):
        user_code.check_functions(settings)


def test_functions_of_settings_are_found_first(folder: Path) -> None:
    user_code.check_functions(Settings.from_args([]))
    user_code.check_functions(Settings.from_args(["MODEL=parcel.net:build"]))
    for model in ("nowhere.net:build", "handmade:other", "parcel.net:other"):
        with pytest.raises(SettingsError, match=f"MODEL={model}"):
            user_code.check_functions(Settings.from_args([f"MODEL={model}"]))
    assert not (folder / "trace").exists()


def test_import_path_has_the_current_folder_last(tmp_path: Path) -> None:
    path = [str(tmp_path), "/lib/python"]
    moved = import_path.move_current_folder(path, str(tmp_path))
    assert moved == [import_path.ROOT, "/lib/python", str(tmp_path)]
    assert import_path.move_current_folder([import_path.ROOT, "x"], import_path.ROOT) == [
        import_path.ROOT, "x",
    ]  # fmt: skip


@pytest.mark.parametrize("program", ["qfleet runs", "inference"])
def test_files_of_the_current_folder_replace_no_library(tmp_path: Path, program: str) -> None:
    for name in ("rich", "numpy", "h5py", "difflib", "uuid", "yaml"):
        (tmp_path / f"{name}.py").write_text("open('trace', 'w').write(__name__)")
    done = subprocess.run(
        [sys.executable, "-m", *program.split(), "STORAGE=."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": import_path.ROOT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (2 if program == "inference" else 0), done.stderr
    assert "no finished run" in done.stderr or program != "inference"
    assert not (tmp_path / "trace").exists()
