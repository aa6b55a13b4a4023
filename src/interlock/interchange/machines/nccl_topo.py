"""Reads NCCL topology XML: NVIDIA's and RCCL's dialects, providers' files without `<gpu>`, dumps of several hosts.

Rates per lane and per link are those that NCCL and RCCL count with. What a file does not say is guessed and listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import read_bytes
from interlock.interchange.machines.server import Gpu, Nic, NicShare, Said, Server, distance_of, share_nics, unused_nics
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.xml_text import Element, parse_xml
from interlock.units import whole_or_none

__all__ = ["GPU_MODELS", "NVLINK_BY_SM", "check_model", "read_nccl_topology"]

MAX_GPUS = 4096
MAX_NICS = 4096
GB = 1e9

LANE_BY_SPEED = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}  # NCCL's, in 1/80 GB/s
NVLINK_BY_SM = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}  # GB/s per link and direction
XGMI_BY_GCN = {"906": 24.0, "908": 24.0, "910": 36.0, "90a": 36.0, "94": 48.0, "95": 48.0}  # RCCL's, GB/s per link
BOARDS = {16.0: (80, 12), 32.0: (90, 18)}  # PCIe speed -> (sm, NVLinks) of boards of eight GPUs and eight NICs
# sm, and NVLinks to a switch; 0: GPUs meet over PCIe; None: some servers have a switch, others links between pairs.
GPU_MODELS: dict[str, tuple[int, int | None]] = {
    "v100": (70, None),
    "a100": (80, 12),
    "h100": (90, 18),
    "h200": (90, 18),
    "b200": (100, 18),
    "a10g": (86, 0),
    "t4": (75, 0),
    "l4": (89, 0),
    "l40s": (89, 0),
}
MODEL_BY_DEVICE = {  # PCI device ids
    "0x20b0": "a100",
    "0x20b2": "a100",
    "0x2330": "h100",
    "0x2335": "h200",
    "0x2901": "b200",
    "0x2237": "a10g",
    "0x1eb8": "t4",
    "0x27b8": "l4",
    "0x26b9": "l40s",
}
LINKS_BY_SM = {70: None, 75: 0, 80: 12, 86: 0, 89: 0, 90: 18, 100: 18}
DEFAULT_NET_MBIT = 10_000
MAX_NET_MBIT = 10_000_000  # above it, a speed is in kb/s: Slingshot's plug-in reports so
VIRTUAL_SWITCH = re.compile(r"f{4,8}:ff:ff\.[0-9a-f]")


@dataclass(slots=True)
class _Device:
    """A GPU or NIC with its place in the tree."""

    element: Element
    pci: Element | None
    bridges: tuple[str, ...]
    numa: str
    host: str


@dataclass(slots=True)
class _Parts:
    file: str
    gpus: list[_Device] = field(default_factory=list)
    nets: list[_Device] = field(default_factory=list)
    unnamed: list[_Device] = field(default_factory=list)  # PCI devices that do not say what they are
    guesses: list[str] = field(default_factory=list)
    model: str | None = None  # of GPUs, as the user says
    nic_bytes_per_s: float | None = None  # likewise
    heeded: set[str] = field(default_factory=set)  # of what the user says
    said: Said = field(default_factory=Said)
    says_pcie: bool = True  # the speed of every GPU's slot

    def guess(self, text: str) -> None:
        if text not in self.guesses:
            self.guesses.append(text)


def read_nccl_topology(path: Path, gpu: str | None = None, nic_bytes_per_s: float | None = None) -> list[Server]:
    """Servers of a file: one, or one per `host_hash` in a dump of several hosts.

    `gpu` and `nic_bytes_per_s` say what the file does not; it is asked for where nothing in the file tells.
    """
    check_model(gpu)
    root = parse_xml(read_bytes(path, MAX_FILE_BYTES), path).root
    if root.name == "graphs":
        raise InvalidInput(f"{path} holds NCCL's graphs (rings and trees), not the topology they run on")
    if root.name != "system":
        raise InvalidInput(f"{path}: the root is <{root.name[:64]}>, not <system>; this is no NCCL topology")
    parts = _Parts(str(path), model=gpu, nic_bytes_per_s=nic_bytes_per_s)
    for cpu in root.children:
        if cpu.name != "cpu":
            parts.guess(f"<{cpu.name[:40]}> below <system> is not known and was left out")
            continue
        numa = f"{cpu.attributes.get('host_hash', '')}/{cpu.attributes.get('numaid', '?')}"
        _collect(parts, cpu, None, (), numa, cpu.attributes.get("host_hash", ""))
    if not parts.gpus and parts.unnamed:
        if gpu is None:
            raise InvalidInput(
                f"{path} lists {len(parts.unnamed)} PCI devices and says neither which are GPUs nor how they are "
                f"joined; say --gpu ({', '.join(GPU_MODELS)}) if all are, or import the machine's `nvidia-smi topo -m`"
            )
        parts.gpus = parts.unnamed
        parts.heeded.add("gpu")
        parts.guess(f"PCI devices without a class: all {len(parts.gpus)} are taken for GPUs")
    if not parts.gpus:
        raise InvalidInput(f"{path} names no GPU (neither <gpu> nor a PCI device of class 0x03 or 0x12)")
    if len(parts.gpus) > MAX_GPUS or len(parts.nets) > MAX_NICS:
        raise LimitExceeded(f"{path} names {len(parts.gpus)} GPUs and {len(parts.nets)} NICs; that is too many")
    _check_ids(parts)
    hosts = sorted({device.host for device in parts.gpus})
    servers = [_server(parts, host, several=len(hosts) > 1) for host in hosts]
    for name, value in (("gpu", gpu), ("nic", nic_bytes_per_s)):
        if value is not None and name not in parts.heeded:
            raise InvalidInput(f"{name}={value} has no effect: {path} says its own")
    joined = len(servers) > 1 and all(gpu.switch_bytes_per_s > 0 for server in servers for gpu in server.gpus)
    return [_one_domain(path.name, servers)] if joined else servers


def check_model(gpu: str | None) -> None:
    """Refuse GPUs whose links are not known."""
    if gpu is not None and gpu not in GPU_MODELS:
        raise InvalidInput(f"unknown GPU {gpu!r}; known: {', '.join(GPU_MODELS)}")


def _one_domain(name: str, hosts: list[Server]) -> Server:
    """A dump of several hosts is one NVLink domain: one server to us. Each host's NICs stay with its own GPUs."""
    gpus: list[Gpu] = []
    nics: list[Nic] = []
    shares: list[tuple[NicShare, ...]] = []
    for host in hosts:
        shares += [tuple(NicShare(len(nics) + p.nic, p.share, p.distance) for p in parts) for parts in host.nics_of_gpu]
        gpus += host.gpus
        nics += host.nics
    guess = f"one file holds {len(hosts)} hosts: taken as one NVLink domain of {len(gpus)} GPUs"
    guesses = dict.fromkeys(text for host in hosts for text in host.guesses)
    return Server(name, tuple(gpus), tuple(nics), tuple(shares), (*guesses, guess), hosts[0].said)


def _collect(
    parts: _Parts, element: Element, pci: Element | None, bridges: tuple[str, ...], numa: str, host: str
) -> None:
    """Find GPUs and NICs below an element."""
    for child in element.children:
        if child.name == "pci":
            kind = child.attributes.get("class", "").lower().removeprefix("0x")
            has_device = any(grand.name in ("gpu", "nic") for grand in child.children)
            if kind.startswith(("03", "12")) and not has_device:
                parts.gpus.append(_Device(child, child, bridges, numa, host))
            elif kind.startswith("02") and not has_device:
                parts.nets.append(_Device(child, child, bridges, numa, host))
            elif not kind and not child.children:
                parts.unnamed.append(_Device(child, child, bridges, numa, host))
            else:
                inner = bridges if has_device else (*bridges, child.attributes.get("busid", f"line {child.line}"))
                _collect(parts, child, child, inner, numa, host)
        elif child.name == "gpu":
            parts.gpus.append(_Device(child, pci, bridges, numa, host))
        elif child.name == "nic":
            for net in child.all("net"):
                parts.nets.append(_Device(net, pci, bridges, numa, host))
        elif child.name == "net":
            parts.nets.append(_Device(child, pci, bridges, numa, host))
        elif child.name not in ("pcilink", "nvlink", "xgmi", "c2c"):
            parts.guess(f"<{child.name[:40]}> is not known and was left out")


def _check_ids(parts: _Parts) -> None:
    """No two GPUs may be the same device."""
    for key in ("dev", "rank"):
        seen: dict[tuple[str, str], int] = {}
        for device in parts.gpus:
            value = device.element.attributes.get(key) if device.element.name == "gpu" else None
            if value is None or value.startswith("-"):
                continue
            place = (device.host if key == "dev" else "", value)
            if place in seen:
                raise InvalidInput(
                    f"{parts.file}: gpu {key}={value[:20]!r} is given on line {seen[place]} and on line "
                    f"{device.element.line}"
                )
            seen[place] = device.element.line
    lines: dict[tuple[str, str], int] = {}
    for device in parts.gpus:
        busid = _busid(device)
        if busid and (device.host, busid) in lines:
            first = lines[device.host, busid]
            raise InvalidInput(f"{parts.file}: PCI device {busid} is given twice (lines {first} and later)")
        lines[device.host, busid] = device.element.line


def _server(parts: _Parts, host: str, *, several: bool) -> Server:
    gpus = sorted((g for g in parts.gpus if g.host == host), key=_gpu_order)
    nets = [n for n in parts.nets if n.host == host]
    number_of_busid = {_busid(gpu): k for k, gpu in enumerate(gpus)}
    made = [_gpu(parts, k, device, number_of_busid) for k, device in enumerate(gpus)]
    made = _guess_scale_up(parts, gpus, made, len(nets))
    nics = _drop_management(parts, [_nic(parts, device) for device in nets])
    if not nics and parts.nic_bytes_per_s is not None:
        parts.heeded.add("nic")
        nics = [Nic("nic", parts.nic_bytes_per_s)]
        parts.said = replace(parts.said, nics_why="as said (--nic): one for all GPUs, as the file names none")
    shares = share_nics([[distance_of(gpu, nic) for nic in nics] for gpu in made], len(nics))
    if not nics:
        parts.guess("the file names no NIC; the server stands alone")
    for text in unused_nics(nics, shares):
        parts.guess(text)
    source = f"{Path(parts.file).name}, host {host}" if several else Path(parts.file).name
    said = parts.said if nics else replace(parts.said, nics_why="the file names no NIC")
    return Server(source, tuple(made), tuple(nics), shares, tuple(parts.guesses), said)


def _gpu_order(device: _Device) -> tuple[int, int]:
    """By rank, then device number; devices without either in file order."""
    attributes = device.element.attributes if device.element.name == "gpu" else {}
    number = whole_or_none(attributes.get("rank", attributes.get("dev", "")))
    return (1, device.element.line) if number is None or number < 0 else (0, number)


def _busid(device: _Device) -> str:
    return device.pci.attributes.get("busid", "").lower() if device.pci is not None else ""


def _gpu(parts: _Parts, number: int, device: _Device, number_of_busid: dict[str, int]) -> Gpu:
    """Direct links of a GPU: to the switch, or to other GPUs."""
    is_gpu = device.element.name == "gpu"
    attributes = device.element.attributes if is_gpu else {}
    switch = 0.0
    peers: dict[int, float] = {}
    for link in device.element.children if is_gpu else ():
        if link.name not in ("nvlink", "xgmi"):
            continue
        rate = _count(parts, link) * _link_rate(parts, link.name, attributes) * GB
        target = link.attributes.get("target", "").lower()
        kind = link.attributes.get("tclass", "").lower().removeprefix("0x")
        peer = number_of_busid.get(target)
        if kind.startswith("0680") or VIRTUAL_SWITCH.fullmatch(target):
            switch += rate
        elif peer is not None and peer != number:
            peers[peer] = peers.get(peer, 0.0) + rate
        else:
            parts.guess(
                f"GPU {number}: a link to {target[:20]}, which is no other GPU here, is taken as one to a switch"
            )
            switch += rate
    return Gpu(
        name=f"gpu {attributes.get('dev', number)}",
        busid=_busid(device),
        numa=device.numa,
        bridges=device.bridges,
        pcie_bytes_per_s=_pcie(parts, device),
        switch_bytes_per_s=switch,
        peers=tuple(sorted(peers.items())),
    )


def _count(parts: _Parts, link: Element) -> int:
    text = link.attributes.get("count", "1")
    count = whole_or_none(text)
    if count is None or not 1 <= count < 10_000:
        raise InvalidInput(f"{parts.file}, line {link.line}: count={text[:20]!r} is not a number of links")
    return count


def _link_rate(parts: _Parts, kind: str, attributes: dict[str, str]) -> float:
    """GB/s of one link, each way."""
    if kind == "xgmi":
        code = attributes.get("gcn", "").lower().removeprefix("gfx")
        for start in sorted(XGMI_BY_GCN, key=len, reverse=True):
            if code.startswith(start):
                return XGMI_BY_GCN[start]
        parts.guess(f"xGMI links of gcn={code[:20]!r} are counted at 48 GB/s")
        return 48.0
    text = attributes.get("sm", "")
    sm = whole_or_none(text) or 0
    known = [version for version in NVLINK_BY_SM if version <= sm]
    if sm not in NVLINK_BY_SM:
        rate = NVLINK_BY_SM[max(known)] if known else 20.0
        parts.guess(f"NVLinks of sm={text[:20]!r} are counted at {rate:g} GB/s")
        return rate
    return NVLINK_BY_SM[sm]


def _pcie(parts: _Parts, device: _Device) -> float:
    """NCCL's PCIe rate of a device: lanes times the rate of one."""
    attributes = device.pci.attributes if device.pci is not None else {}
    speed = _speed(attributes.get("link_speed", ""))
    lane = LANE_BY_SPEED.get(speed)
    if lane is None:
        if attributes.get("link_speed", "").strip():
            parts.guess(f"PCIe speed {attributes['link_speed'][:20]!r} is not known; counted as 8 GT/s")
        parts.says_pcie = False
        lane = 60
    lanes = whole_or_none(attributes.get("link_width", "")) or 0
    parts.says_pcie &= 0 < lanes < 1000
    return (lanes if 0 < lanes < 1000 else 16) * lane / 80 * GB


def _speed(text: str) -> float:
    """The number in "16 GT/s", "16.0 GT/s PCIe" and their kin."""
    match = re.match(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)", text)
    return float(match.group(1)) if match else 0.0


def _nic(parts: _Parts, device: _Device) -> Nic:
    attributes = device.element.attributes
    if device.element.name == "pci":
        name = attributes.get("busid", f"line {device.element.line}")
        if parts.nic_bytes_per_s is not None:
            parts.heeded.add("nic")
            parts.said = replace(parts.said, nics_why="as said (--nic)")
            return Nic(name, parts.nic_bytes_per_s, device.numa, device.bridges)
        rate = 200e9 / 8 if _speed(attributes.get("link_speed", "")) < 32 else 400e9 / 8
        if attributes.get("device", "").lower().startswith("0xefa"):
            rate = 100e9 / 8
        why = "not in the file; by the speed of its PCI entry (say --nic)"
        parts.said = replace(parts.said, nic_rates=False, nics_why=why)
        parts.guess(f"NIC rates are not in the file; by their PCI entries they count as {rate * 8 / GB:g} Gb/s each")
        return Nic(name, rate, device.numa, device.bridges)
    mbit = _net_mbit(parts, attributes)
    rail = whole_or_none(attributes.get("rail", ""))
    return Nic(attributes.get("name", "net")[:64], mbit * 1e6 / 8, device.numa, device.bridges, rail)


def _net_mbit(parts: _Parts, attributes: dict[str, str]) -> float:
    """Mb/s of a NIC; NCCL's default where there is no rate."""
    text = attributes.get("speed", "")
    try:
        mbit = float(text) if len(text) < 20 else 0.0
    except ValueError:
        mbit = 0.0
    if MAX_NET_MBIT < mbit <= 1000 * MAX_NET_MBIT:
        parts.guess(f"speed={text[:20]!r} cannot be Mb/s; counted as kb/s")
        return mbit / 1000
    if not 0 < mbit <= MAX_NET_MBIT and parts.nic_bytes_per_s is not None:
        parts.heeded.add("nic")
        parts.said = replace(parts.said, nics_why="as said (--nic), where the file has no rate")
        return parts.nic_bytes_per_s * 8 / 1e6
    if not 0 < mbit <= MAX_NET_MBIT:
        parts.guess(f"speed={text[:20]!r} of {attributes.get('name', 'a NIC')[:40]} is not a rate; counted as 10 Gb/s")
        return DEFAULT_NET_MBIT
    return mbit


def _drop_management(parts: _Parts, nics: list[Nic]) -> list[Nic]:
    """Slow or virtual NICs beside fast ones carry no GPU traffic."""
    fastest = max((nic.bandwidth_bytes_per_s for nic in nics), default=0.0)
    kept = [
        nic
        for nic in nics
        if nic.bandwidth_bytes_per_s * 4 >= fastest and not nic.name.startswith(("veth", "docker", "virbr"))
    ]
    for nic in nics:
        if nic not in kept:
            parts.guess(
                f"{nic.name} ({nic.bandwidth_bytes_per_s * 8 / GB:g} Gb/s) is taken for management and left out"
            )
    return kept or nics


def _guess_scale_up(parts: _Parts, devices: list[_Device], gpus: list[Gpu], num_nics: int) -> list[Gpu]:
    """A file without any link between GPUs: providers leave NVLink to be detected."""
    if any(gpu.switch_bytes_per_s or gpu.peers for gpu in gpus) or len(gpus) < 2:
        return gpus
    parts.said = replace(parts.said, links=parts.model is not None)
    if any(device.element.attributes.get("gcn") for device in devices):
        return _over_pcie(parts, gpus, "no links between GPUs in the file")
    sm, links, why = _model(parts, devices, num_nics)
    if links == 0:
        return _over_pcie(parts, gpus, f"{why}: no NVLink")
    rate = links * NVLINK_BY_SM[sm] * GB
    known = f"{why}: {links} links of {NVLINK_BY_SM[sm]:g} GB/s, as NCCL counts them (below the nominal rate)"
    parts.said = replace(parts.said, links_why=known)
    parts.guess(
        f"NVLink is not in the file (providers leave it to be detected): counted as a switch with {links} links of "
        f"{NVLINK_BY_SM[sm]:g} GB/s per GPU, as {why} has"
    )
    return [replace(gpu, switch_bytes_per_s=rate) for gpu in gpus]


def _over_pcie(parts: _Parts, gpus: list[Gpu], why: str) -> list[Gpu]:
    rate = "the speed of their slots" if parts.says_pcie else "12 GB/s, as NCCL counts slots of unknown speed"
    known = f"{why}, GPUs reach each other over PCIe at {rate}"
    parts.said = replace(parts.said, links_why=known, link_rates=parts.says_pcie)
    parts.guess(known)
    return gpus


def _model(parts: _Parts, devices: list[_Device], num_nics: int) -> tuple[int, int, str]:
    """`sm`, NVLinks per GPU and how that is known: said, by PCI id, by sm, or by the board; otherwise asked for."""
    sm, links, why = _known_model(parts, devices, num_nics)
    if links is None:
        raise InvalidInput(
            f"{parts.file}: {why} is joined by a switch in some servers and by links between pairs in others; import "
            "the machine's `nvidia-smi topo -m`, which shows them"
        )
    return sm, links, why


def _known_model(parts: _Parts, devices: list[_Device], num_nics: int) -> tuple[int, int | None, str]:
    if parts.model is not None:
        parts.heeded.add("gpu")
        return *GPU_MODELS[parts.model], f"{parts.model} (--gpu)"
    ids = {d.pci.attributes.get("device", "").lower() for d in devices if d.pci is not None}
    models = {MODEL_BY_DEVICE[one] for one in ids if one in MODEL_BY_DEVICE}
    if len(models) == 1:
        model = models.pop()
        return *GPU_MODELS[model], f"{model}, by its PCI device id"
    sms = {device.element.attributes.get("sm", "") for device in devices if device.element.name == "gpu"} - {""}
    if len(sms) == 1 and (sm := whole_or_none(sms.pop())) in LINKS_BY_SM:
        return sm, LINKS_BY_SM[sm], f"a GPU of sm {sm}"
    speed = max((_speed(d.pci.attributes.get("link_speed", "")) for d in devices if d.pci is not None), default=0.0)
    if len(devices) == 8 and num_nics >= 4 and not sms:
        return *BOARDS.get(speed, BOARDS[16.0]), f"a board of eight GPUs and {num_nics} NICs on PCIe of {speed:g} GT/s"
    raise InvalidInput(
        f"{parts.file} says neither what its {len(devices)} GPUs are nor how they are joined; say --gpu "
        f"({', '.join(GPU_MODELS)}), or import the machine's `nvidia-smi topo -m`, which shows its links"
    )
