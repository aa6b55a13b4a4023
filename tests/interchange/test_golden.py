"""Exports are, byte for byte, those that were reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interchange.golden import FOLDER, exports
from tests.interchange.problems import intent_of

from interlock.interchange import read_foreign
from interlock.validate import check

EXPORTS = {name: (format_name, plan, options) for name, format_name, plan, options in exports()}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_are_those_that_were_reviewed(name: str, tmp_path: Path) -> None:
    format_name, plan, options = EXPORTS[name]
    report = plan.export(format_name, tmp_path / name, **options)
    assert sorted(report.files) == sorted(file for file in tmp_path.rglob("*") if file.is_file())
    for file in report.files:
        kept = FOLDER / file.relative_to(tmp_path)
        assert file.read_bytes() == kept.read_bytes(), f"{kept.name} differs; see tests/interchange/golden.py"


@pytest.mark.parametrize("name", [n for n, (f, _, _) in EXPORTS.items() if f not in ("nccl-tests", "chrome-trace")])
def test_reviewed_files_verify(name: str) -> None:
    format_name, plan, _ = EXPORTS[name]
    found = read_foreign(FOLDER / name, intent_of(plan.problem), format_name)
    assert found.violations == () and check(found.schedule, found.problem).valid
