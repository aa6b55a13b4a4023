"""What `import-topology` understands of the shared topology files: every field, stated by the file or guessed.

Files whose GPUs or NICs nothing tells are asked about, and listed with the question.
"""

from __future__ import annotations

from pathlib import Path

from common import arguments, report
from interlock.errors import InterlockError
from interlock.interchange import import_topology

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
FILES = ("nccl_topo/*", "astra/*.yml", "astra/*.topo", "examples/simai_topo*")


def main() -> None:
    """One row per file and field."""
    options = arguments(__doc__ or "")
    if not DATA.is_dir():
        print("skipped: ../shared/data is not here")
        return
    rows: list[dict[str, object]] = []
    for file in sorted(file for pattern in FILES for file in DATA.glob(pattern)):
        try:
            fields = import_topology([file]).fields
        except InterlockError as error:
            rows.append({"file": file.name, "asked": str(error).removeprefix(f"{file}").lstrip(": ")})
            continue
        rows += [
            {"file": file.name, "field": f.name, "value": f.value, "stated": f.is_stated, "why": f.why} for f in fields
        ]
    report("imported", rows, options)


if __name__ == "__main__":
    main()
