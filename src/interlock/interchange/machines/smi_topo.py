"""Reads the text of `nvidia-smi topo -m`: with or without colours, wrapped, with older NIC names."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from interlock.errors import InvalidInput
from interlock.files import read_text
from interlock.interchange.machines.nccl_topo import GPU_MODELS, NVLINK_BY_SM, check_model
from interlock.interchange.machines.server import Distance, Gpu, Nic, Said, Server, share_nics, unused_nics

__all__ = ["looks_like_smi_topology", "read_smi_topology"]

MAX_BYTES = 1 << 20
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
TAIL = ("CPU", "NUMA", "GPU")  # words that begin the columns after the devices': CPU Affinity, GPU NUMA ID, …
CODE = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SOC|SYS")
GB = 1e9

# Links per GPU -> GB/s of one link, and the Gb/s of the NICs that such servers usually have.
GENERATIONS = {18: (20.6, 400), 12: (20.0, 200), 8: (20.0, 200), 6: (20.0, 100), 4: (12.0, 100), 36: (20.6, 400)}


def looks_like_smi_topology(text: str) -> bool:
    """Whether a text has the matrix of `nvidia-smi topo -m` in it."""
    plain = ANSI.sub("", text)
    return bool(re.search(r"^[^\S\n]*GPU0\b.*\bX\b", plain, re.MULTILINE))


def read_smi_topology(path: Path, gpu: str | None = None, nic_bytes_per_s: float | None = None) -> list[Server]:
    """The server whose matrix is in a file; `gpu` and `nic_bytes_per_s` say what it does not."""
    check_model(gpu)
    text = ANSI.sub("", read_text(path, MAX_BYTES))
    columns, rows = _matrix(path, text)
    gpus = [name for name in columns if name.startswith("GPU")]
    nics = [name for name in columns if not name.startswith("GPU")]
    if nic_bytes_per_s is not None and not nics:
        raise InvalidInput(f"nic={nic_bytes_per_s} has no effect: {path} names no NIC")
    guesses: list[str] = []
    codes = [[_code(path, rows, gpu, other, columns) for other in columns] for gpu in gpus]
    links = [[_links(codes[a][columns.index(gpus[b])]) for b in range(len(gpus))] for a in range(len(gpus))]
    made, nic_gbit = _scale_up(path, gpus, links, gpu, guesses)
    names = dict(re.findall(r"^[^\S\n]*(NIC[0-9]+):[^\S\n]*(\S{1,64})[^\S\n]*$", text, re.MULTILINE))
    rate = nic_gbit * GB / 8 if nic_bytes_per_s is None else nic_bytes_per_s
    if nics and nic_bytes_per_s is None:
        guesses.append(f"NIC rates are not in the matrix: counted as {nic_gbit} Gb/s each")
    elif not nics:
        guesses.append("the matrix names no NIC; the server stands alone")
    cards = [Nic(names.get(nic, nic), rate) for nic in nics]
    distances = [[_distance(codes[a][columns.index(nic)]) for nic in nics] for a in range(len(gpus))]
    shares = share_nics(distances, len(cards))
    guesses += unused_nics(cards, shares)
    why = "number of links in the matrix, at the rate NCCL counts for one, which is below the nominal one"
    nics_why = "as said (--nic)" if nic_bytes_per_s is not None else "usual beside that many links (say --nic)"
    has_links = any(gpu.switch_bytes_per_s or gpu.peers for gpu in made)
    if not has_links:
        why = "no NVLink in the matrix; 12 GB/s is a PCIe 3.0 slot of 16 lanes"
    said = Said(has_links, has_links, why, nic_bytes_per_s is not None, nics_why)
    return [Server(path.name, tuple(made), tuple(cards), shares, tuple(guesses), said)]


def _matrix(path: Path, text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Device names of the header and the codes of each row; both may continue on further lines.

    What stands before the header and after the matrix, as in reports of whole environments, is passed over.
    """
    lines = [line.split() for line in text.splitlines()]
    rows_begin = next((k for k, words in enumerate(lines) if words[:2] == ["GPU0", "X"]), len(lines))
    headers = [k for k in range(rows_begin) if lines[k][:1] == ["GPU0"]]
    if rows_begin == len(lines) or not headers:
        raise InvalidInput(f"{path} does not hold the matrix of `nvidia-smi topo -m`")
    heading = [word for words in lines[headers[-1] : rows_begin] for word in words]
    columns = list(itertools.takewhile(lambda word: word not in TAIL, heading))
    if len(set(columns)) != len(columns):
        raise InvalidInput(f"{path}: a column of the matrix is given twice")
    rows: dict[str, list[str]] = {}
    current: str | None = None
    for words in lines[rows_begin:]:
        if words[:1] == ["Legend:"]:
            break
        if len(words) > 1 and words[0] in columns and CODE.fullmatch(words[1]):
            current = words[0]
            if current in rows:
                raise InvalidInput(f"{path}: row {current} is given twice")
            rows[current] = []
        elif not words:
            current = None
        if current is not None:
            rows[current] += [word for word in words if CODE.fullmatch(word)]
    return columns, rows


def _code(path: Path, rows: dict[str, list[str]], row: str, column: str, columns: list[str]) -> str:
    if row not in rows or len(rows[row]) != len(columns):
        raise InvalidInput(f"{path}: row {row} has {len(rows.get(row, []))} entries; there are {len(columns)} columns")
    return rows[row][columns.index(column)]


def _links(code: str) -> int:
    return int(code[2:]) if code.startswith("NV") else 0


def _distance(code: str) -> Distance:
    if code == "SOC":
        return Distance.SYS  # the name before drivers 384
    return Distance[code] if code in Distance.__members__ else Distance.PIX


def _scale_up(
    path: Path, names: list[str], links: list[list[int]], model: str | None, guesses: list[str]
) -> tuple[list[Gpu], int]:
    """A switch where every pair shows all of a GPU's links, otherwise links between pairs."""
    most = max((count for row in links for count in row), default=0)
    if most == 0:
        if model is not None:
            raise InvalidInput(f"gpu={model} has no effect: {path} shows no NVLink, whose rate it would say")
        if len(names) > 1:
            guesses.append("no NVLink in the matrix: GPUs reach each other over PCIe, counted as 12 GB/s")
        return [Gpu(name.lower(), pcie_bytes_per_s=12 * GB) for name in names], 100
    in_all = max(sum(row) for row in links)
    is_switch = len(names) > 2 and in_all > max(most, 18)
    per_gpu = most if is_switch else in_all
    if per_gpu not in GENERATIONS and model is None:
        raise InvalidInput(
            f"{path}: GPUs with {per_gpu} NVLinks are not known; say --gpu ({', '.join(GPU_MODELS)}) for one's rate"
        )
    rate, nic_gbit = GENERATIONS.get(per_gpu, (0.0, 200))
    whose = f"GPUs with {per_gpu} of them"
    if model is not None:
        rate, whose = _rate_of(path, model), model
    guesses.append(f"links are counted at {rate:g} GB/s each way, as NCCL does for {whose}")
    if is_switch:
        guesses.append(f"every pair shows {most} links: a switch joins the GPUs")
        return [Gpu(name.lower(), switch_bytes_per_s=most * rate * GB) for name in names], nic_gbit
    made = []
    for k, name in enumerate(names):
        peers = tuple((other, count * rate * GB) for other, count in enumerate(links[k]) if count)
        made.append(Gpu(name.lower(), peers=peers, pcie_bytes_per_s=12 * GB))
    return made, nic_gbit


def _rate_of(path: Path, model: str) -> float:
    """GB/s of one NVLink of a GPU."""
    rate = NVLINK_BY_SM.get(GPU_MODELS[model][0])
    if rate is None:
        raise InvalidInput(f"{path} shows NVLinks, which {model} (--gpu) does not have")
    return rate
