"""A two-tier network out of Linux network namespaces: one per GPU, joined by shaped links and bridges.

Every rank's namespace has three interfaces: `nic0` to the fabric's bridge, shaped to the NIC's rate in both directions;
`up0` to its server's bridge, shaped to the scale-up rate; `ctl0` to an unshaped bridge that carries only rendezvous and
heartbeats. A rank has one address; routes send it over `up0` inside the server and over `nic0` elsewhere. All bridges
live in one more namespace, the hub, so the machine's own network is never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import InterlockError, InvalidInput
from interlock.topology import Cluster, Fabric, NicFault

__all__ = ["LabSpec", "LabUnavailable", "LabNetwork", "check_available", "congestion_control", "reap", "running"]

MAX_RANKS = 128
PREFIX = "ilk-"
NAMESPACE_FOLDER = Path("/run/netns")
HEADER_BYTES, SEGMENT_BYTES = 66, 1448  # Ethernet, IP and TCP with timestamps around a full segment
PORT_QUEUE_BYTES = 24_000  # of a switch port towards a rank: 4 ms at 50 Mbit/s, some ten round trips when idle
LEAST_QUEUE_BYTES = 12_000  # a burst and a frame
HOST_QUEUE_BYTES = 1_500_000  # of a rank's own interface: 1000 packets, Linux's default; TCP keeps it short by itself
BURST_BYTES = 10_000
OFFLOAD_BYTES = 9_000  # most that TCP hands a NIC at once; less than a burst passes uncut, which spares the processor
SCALE_UP_QUEUE_BYTES = 1_500_000
SCALE_UP_BURST_BYTES = 130_000  # whole 64 KiB segments pass uncut, which spares the processor

_NAME = re.compile(r"[a-z0-9]{1,24}")


class LabUnavailable(InterlockError):
    """The machine cannot host a lab; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """What a lab looks like. Rates in bytes per second of frames on the wire."""

    servers: int
    gpus: int
    nic_bytes_per_s: float
    scale_up_bytes_per_s: float
    nic_overrides: dict[int, float] = field(default_factory=dict)  # by rank; 0 is a dead NIC
    port_queue_bytes: int = PORT_QUEUE_BYTES  # that a switch port holds of what goes to a rank's NIC

    def __post_init__(self) -> None:
        for name, value in (("servers", self.servers), ("gpus", self.gpus)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RANKS:
                raise InvalidInput(f"{name}={value!r} must be a whole number from 1 to {MAX_RANKS}")
        if self.num_ranks > MAX_RANKS:
            raise InvalidInput(f"servers={self.servers} x gpus={self.gpus} is above {MAX_RANKS} ranks of a lab")
        if self.port_queue_bytes < LEAST_QUEUE_BYTES:
            raise InvalidInput(f"port_queue_bytes={self.port_queue_bytes} must be at least {LEAST_QUEUE_BYTES}")
        for rank in self.nic_overrides:
            if not 0 <= rank < self.num_ranks:
                raise InvalidInput(f"NIC of rank {rank}: ranks go from 0 to {self.num_ranks - 1}")

    @property
    def num_ranks(self) -> int:
        """One namespace each."""
        return self.servers * self.gpus

    def nic_rate(self, rank: int) -> float:
        """Bytes per second of one rank's NIC; 0 where it is dead."""
        return self.nic_overrides.get(rank, self.nic_bytes_per_s)

    def address(self, rank: int) -> str:
        """The address a rank is known by."""
        return f"10.77.{rank // self.gpus}.{rank % self.gpus + 1}"

    def to_cluster(self, **changes: object) -> Cluster:
        """The lab as a cluster: rates of payload, headers taken off; latencies as a quiet machine shows them."""
        goodput = SEGMENT_BYTES / (SEGMENT_BYTES + HEADER_BYTES)
        faults = tuple(
            NicFault(rank // self.gpus, rank % self.gpus, 0, rate * goodput)
            for rank, rate in sorted(self.nic_overrides.items())
        )
        base = Cluster(
            name="lab",
            servers=self.servers,
            gpus_per_server=self.gpus,
            scale_up_bandwidth_bytes_per_s=self.scale_up_bytes_per_s * goodput,
            scale_up_latency_s=200e-6,
            scale_out_bandwidth_bytes_per_s=self.nic_bytes_per_s * goodput,
            scale_out_latency_s=500e-6,
            message_overhead_s=300e-6,  # all ranks share the machine's processors
            stage_overhead_s=100e-6,
            fabric=Fabric(name="tcp", fan_in=4, loss_per_sender=0.15),
            faults=faults,
        )
        return base.with_(**changes)


class LabNetwork:
    """A lab's namespaces; use as a context manager, or `up` and `down` by name."""

    def __init__(self, spec: LabSpec, name: str | None = None) -> None:
        self.spec = spec
        self.is_temporary = name is None
        self.name = f"run{os.getpid()}x{secrets.token_hex(3)}" if name is None else name
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(f"lab name {self.name!r} must be 1 to 24 lower-case letters and digits")

    @property
    def hub(self) -> str:
        """Namespace of the bridges."""
        return f"{PREFIX}{self.name}-hub"

    def namespace(self, rank: int) -> str:
        """Namespace of a rank."""
        return f"{PREFIX}{self.name}-r{rank}"

    def up(self) -> None:
        """Make everything; on any failure nothing is left behind."""
        check_available()
        if self.hub in _namespaces():
            raise InvalidInput(f"a lab named {self.name!r} is already up; `interlock lab down` removes it")
        try:
            self._make()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End what runs in the lab's namespaces, and remove them, and with them their interfaces."""
        _remove(self.name)

    def __enter__(self) -> LabNetwork:
        self.up()
        return self

    def __exit__(self, *error: object) -> None:
        self.down()

    def set_link(self, rank: int, *, is_up: bool) -> None:
        """Pull or plug a rank's NIC at the switch."""
        _run(["ip", "-n", self.hub, "link", "set", f"nic{rank}", "up" if is_up else "down"])

    def _make(self) -> None:
        spec = self.spec
        _batch(["ip"], [f"netns add {self.hub}", *(f"netns add {self.namespace(r)}" for r in range(spec.num_ranks))])
        _batch(["ip", "-n", self.hub], list(self._hub_links()))
        _run(["ip", "netns", "exec", self.hub, "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0"])
        for rank in range(spec.num_ranks):
            _batch(["ip", "-n", self.namespace(rank)], list(self._rank_links(rank)))
            _batch(["tc", "-n", self.namespace(rank)], list(_shaping("nic0", "up0", spec, rank, HOST_QUEUE_BYTES)))
        shaping = [
            line
            for rank in range(spec.num_ranks)
            for line in _shaping(f"nic{rank}", f"up{rank}", spec, rank, spec.port_queue_bytes)
        ]
        _batch(["tc", "-n", self.hub], shaping)

    def _hub_links(self) -> Iterator[str]:
        yield "link set lo up"
        spec = self.spec
        note = {
            "servers": spec.servers,
            "gpus": spec.gpus,
            "nic": spec.nic_bytes_per_s,
            "up": spec.scale_up_bytes_per_s,
            "queue": spec.port_queue_bytes,
        }
        note["owner"] = os.getpid() if self.is_temporary else 0
        for bridge in ("fabric", "control", *(f"server{s}" for s in range(self.spec.servers))):
            yield f"link add {bridge} type bridge"
            yield f"link set {bridge} up"
        yield f"link set fabric alias '{json.dumps(note)}'"
        yield "address add 10.78.255.254/16 dev control"
        for rank in range(self.spec.num_ranks):
            server = rank // self.spec.gpus
            bridges = {"nic": "fabric", "up": f"server{server}", "ctl": "control"}
            for port, bridge in bridges.items():
                yield f"link add {port}{rank} type veth peer name {port}0 netns {self.namespace(rank)}"
                yield f"link set {port}{rank} master {bridge}"
                if port != "nic" or self.spec.nic_rate(rank) > 0:
                    yield f"link set {port}{rank} up"
            if rank in spec.nic_overrides:
                yield f"link set nic{rank} alias {spec.nic_overrides[rank]}"

    def _rank_links(self, rank: int) -> Iterator[str]:
        spec, own = self.spec, self.spec.address(rank)
        server, gpu = divmod(rank, spec.gpus)
        yield "link set lo up"
        yield f"address add {own}/16 dev nic0"
        yield f"address add 10.78.{server}.{gpu + 1}/16 dev ctl0"
        yield f"link set nic0 gso_max_size {OFFLOAD_BYTES}"
        for interface in ("nic0", "up0", "ctl0"):
            yield f"link set {interface} up"
        for peer in range(server * spec.gpus, (server + 1) * spec.gpus):
            if peer != rank:
                yield f"route add {spec.address(peer)}/32 dev up0 src {own}"


def _shaping(nic: str, scale_up: str, spec: LabSpec, rank: int, queue_bytes: int) -> Iterator[str]:
    rate = spec.nic_rate(rank)
    if rate > 0:
        yield f"qdisc add dev {nic} root tbf rate {round(rate * 8)}bit burst {BURST_BYTES}b limit {queue_bytes}b"
    rate = spec.scale_up_bytes_per_s
    shape = f"burst {SCALE_UP_BURST_BYTES}b limit {SCALE_UP_QUEUE_BYTES}b"
    yield f"qdisc add dev {scale_up} root tbf rate {round(rate * 8)}bit {shape}"


def congestion_control() -> str:
    """Which one TCP of this machine takes, and so that of every rank; a lab changes nothing of it."""
    said = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return said.read_text().strip() if said.exists() else "unknown"


def check_available() -> None:
    """Raise LabUnavailable unless namespaces can be made here."""
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        raise LabUnavailable(f"the lab needs {' and '.join(missing)}: install the package iproute2")
    if sys.platform != "linux" or os.geteuid() != 0:
        raise LabUnavailable("the lab makes network namespaces, which needs Linux and root; run it as root")


def running() -> dict[str, LabSpec]:
    """Labs that are up, by name."""
    notes = {name: _read_note(name) for name in _lab_names()}
    return {name: note.spec for name, note in notes.items() if note is not None}


def reap() -> list[str]:
    """Remove temporary labs whose process is gone (killed before it could clean up); give their names."""
    notes = {name: _read_note(name) for name in _lab_names()}
    gone = [name for name, note in notes.items() if note is not None and note.owner and not _is_alive(note.owner)]
    for name in gone:
        _remove(name)
    return gone


@dataclass(frozen=True, slots=True)
class _Note:
    """What the maker of a lab wrote on its interfaces."""

    spec: LabSpec
    owner: int  # process of a temporary lab; 0 where it was made to stay


def _read_note(name: str) -> _Note | None:
    hub = f"{PREFIX}{name}-hub"
    done = subprocess.run(["ip", "-n", hub, "-json", "link", "show"], capture_output=True, text=True)
    try:
        alias = {link["ifname"]: link["ifalias"] for link in json.loads(done.stdout) if "ifalias" in link}
        note = json.loads(alias.pop("fabric"))
        overrides = {int(port.removeprefix("nic")): float(rate) for port, rate in alias.items()}
        spec = LabSpec(note["servers"], note["gpus"], note["nic"], note["up"], overrides, note["queue"])
        return _Note(spec, note["owner"])
    except (ValueError, KeyError, TypeError):
        return None  # not one of ours, or not finished


def _lab_names() -> list[str]:
    is_hub = re.compile(re.escape(PREFIX) + r"([a-z0-9]+)-hub")
    return [match[1] for namespace in _namespaces() if (match := is_hub.fullmatch(namespace))]


def _remove(name: str) -> None:
    mine = re.compile(re.escape(f"{PREFIX}{name}-") + r"(hub|r\d+)")
    ours = [namespace for namespace in _namespaces() if mine.fullmatch(namespace)]
    if not ours:
        return
    # The hub goes first: one deletion takes every veth pair with it.
    ours.sort(key=lambda namespace: not namespace.endswith("-hub"))
    lines = "\n".join(f"netns delete {namespace}" for namespace in ours)
    command = ["ip", "-force", "-batch", "-"]
    _end_inside(ours)
    # In a session of its own a Ctrl-C does not reach it.
    subprocess.run(command, input=lines, text=True, check=False, stderr=subprocess.DEVNULL, start_new_session=True)


def _end_inside(namespaces: Sequence[str]) -> None:
    """Kill the processes in namespaces: ranks whose parent is gone, or whatever was started there by hand."""
    inside = {_identity(NAMESPACE_FOLDER / namespace) for namespace in namespaces} - {None}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid() and _identity(process / "ns/net") in inside:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(process.name), signal.SIGKILL)


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells namespaces apart; None where there is none (any more) or it is not for us to see."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _namespaces() -> list[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _batch(command: Sequence[str], lines: Sequence[str]) -> None:
    if lines:
        _run([*command, "-batch", "-"], "\n".join(lines) + "\n")


def _run(command: Sequence[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise LabUnavailable(f"{' '.join(command)} failed: {' '.join(done.stderr.split())[:400]}")
