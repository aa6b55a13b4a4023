"""The snippets of docs/howto/torchrun.md are one program, and torchrun runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "torchrun.md"
CHECK = """
expected = torch.cat([torch.full((count, 64), float(peer)) for peer, count in enumerate(received)])
assert torch.equal(output, expected)
print("all right", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_the_program_of_the_page_runs_on_two_ranks(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    snippets = re.findall(r"```python\n# train\.py.*?\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "train.py").write_text("\n".join(snippets) + CHECK)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )

    assert len(snippets) == 5
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all right") == 2
    assert (tmp_path / "cluster.toml").exists()
