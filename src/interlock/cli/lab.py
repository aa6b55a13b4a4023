"""`interlock lab`: a real two-tier network on this machine, and plans run over its sockets."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.options import HtmlOption, JsonOption, SeedOption, TrafficOption, build_traffic, refuse
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_json, print_notes, print_table, progress_of
from interlock.errors import InvalidInput, MissingDependency
from interlock.interrupts import cleaned_up, keep
from interlock.units import format_bandwidth, format_bytes, format_seconds, parse_bandwidth, parse_bytes, whole_or_none

if TYPE_CHECKING:
    from interlock.lab import LabNetwork, LabRow, LabSpec
    from interlock.traffic import Demand

__all__ = ["app"]

app = typer.Typer(help="A real two-tier network on this machine; needs Linux and root.", no_args_is_help=True)

DEFAULT_SIZE = "1.5MB"
DEFAULT_TRAFFIC = "zipf:0.8"
NETWORK = ("50Mbit", "500Mbit", "24kB")  # NIC, scale-up and what a port holds
# A step's messages are many, and ranks share a few processors: NICs, not processors, should decide how long it takes.
STEP_NETWORK = ("10Mbit", "100Mbit", "1MB")

ServersOption = Annotated[int | None, typer.Option("--servers", help="Number of servers; default: 4.")]
GpusOption = Annotated[int | None, typer.Option("--gpus", help="Ranks per server; default: 4.")]
NicOption = Annotated[str | None, typer.Option("--nic", help="Rate of each NIC; default: 50Mbit, for steps 10Mbit.")]
ScaleUpOption = Annotated[
    str | None,
    typer.Option("--scale-up", help="Rate of each link inside a server; default: 500Mbit, for steps 100Mbit."),
]
NicOfOption = Annotated[
    list[str] | None, typer.Option("--nic-of", metavar="RANK=RATE", help="Another rate for one NIC; 0 is dead.")
]
PortQueueOption = Annotated[
    str | None,
    typer.Option("--port-queue", help="What a switch port holds of what goes to a NIC; default: 24kB, for steps 1MB."),
]
NameOption = Annotated[str | None, typer.Option("--name", help="Lab made by `lab up`; default: one made for this run.")]


@app.command("run")
def run(
    servers: ServersOption = None,
    gpus: GpusOption = None,
    nic: NicOption = None,
    scale_up: ScaleUpOption = None,
    nic_of: NicOfOption = None,
    port_queue: PortQueueOption = None,
    traffic: TrafficOption = DEFAULT_TRAFFIC,
    collective: Annotated[
        str | None,
        typer.Option("--collective", help="Instead of traffic: all-reduce, all-gather, reduce-scatter or broadcast."),
    ] = None,
    size: Annotated[
        str | None, typer.Option("--size", help="Bytes each rank sends on average, or puts in; default: 1.5MB.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", help="Timed repetitions of each algorithm.")] = 10,
    algorithms: Annotated[
        str | None,
        typer.Option("--algorithms", help="Comma-separated; native is torch's own. Default: native and ours."),
    ] = None,
    calibrate_s: Annotated[
        float, typer.Option("--calibrate", help="Seconds to measure each tier before planning; 0: as declared.")
    ] = 2.0,
    seed: SeedOption = 0,
    name: NameOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Start ranks, run algorithms over real sockets, check every byte; print measured time, bound and prediction.

    Examples:

      interlock lab run --traffic zipf:0.8 --algorithms native,adaptive --html lab.html

      interlock lab run --servers 2 --gpus 8 --nic-of 3=25Mbit --algorithms adaptive --json

      interlock lab run --collective all-reduce --size 4MB --algorithms native,ring
    """
    _need_torch()
    from interlock.lab import collective_of, compare_collective_in_lab, compare_in_lab, ranks_in

    outputs = Outputs({"--html": page})
    _check_repeat(repeat)
    if collective is not None:
        refuse({"--traffic": None if traffic == DEFAULT_TRAFFIC else traffic}, f"--collective {collective} has its own")
        refuse({"--html": page}, "pages show traffic; collectives have --json")
        refuse({"--seed": seed or None}, f"--collective {collective} draws nothing")
    ours = "native,adaptive" if collective is None else "native,auto"
    names = [word.strip() for word in (algorithms or ours).split(",") if word.strip()]
    asked = _Asked(servers, gpus, nic, scale_up, nic_of, port_queue)
    how: dict[str, Any] = {"repeat": repeat, "calibrate_s": calibrate_s}
    with _network(name, asked) as network, progress_of(4, "lab") as step:
        spec = network.spec
        if collective is not None:
            each_bytes = parse_bytes(size or DEFAULT_SIZE, "--size")
            wanted = collective_of(collective, each_bytes, spec.num_ranks)
            step("starting ranks")
            with ranks_in(network) as ranks:
                rows = compare_collective_in_lab(ranks, spec, wanted, names, **how, progress=step)
            title = f"{collective}, {format_bytes(each_bytes)} per rank, {_network_name(spec)}"
            return _tell(title, rows, spec, {"collective": collective, "size_bytes": wanted.size_bytes}, as_json)
        demand = build_traffic(traffic, spec.to_cluster(), size, seed, DEFAULT_SIZE)
        step("starting ranks")
        with ranks_in(network) as ranks:
            rows = compare_in_lab(ranks, spec, demand, names, **how, progress=step)
    total_bytes = int(demand.bytes_matrix.sum())
    title = f"{demand.name}, {format_bytes(total_bytes / spec.num_ranks)} per rank, {_network_name(spec)}"
    if page is not None:
        _write_page(page, title, rows, spec, demand)
    facts = {"unevenness": asdict(demand.unevenness), "traffic": demand.name, "seed": seed, "total_bytes": total_bytes}
    code = _tell(title, rows, spec, facts, as_json)
    if not as_json:
        print_notes([f"Traffic: {demand.unevenness.summary}."])
    outputs.say()
    return code


def _tell(title: str, rows: tuple[LabRow, ...], spec: LabSpec, facts: dict[str, Any], as_json: bool) -> int:
    """Print rows; whether all are valid."""
    if as_json:
        shape = {"name": title, "num_ranks": spec.num_ranks, "servers": spec.servers, "gpus_per_server": spec.gpus}
        results = [row.to_dict() for row in rows]
        print_json({"problem": shape | facts, "results": results, "times_are": "measured"})
    else:
        _print_rows(title, rows)
    return 0 if all(row.valid for row in rows) else 1


def _check_repeat(repeat: int) -> None:
    if repeat < 1 or repeat > 10_000:
        raise InvalidInput(f"--repeat {repeat} must be between 1 and 10000")


@app.command("step")
def step(
    servers: ServersOption = None,
    gpus: GpusOption = None,
    nic: NicOption = None,
    scale_up: ScaleUpOption = None,
    port_queue: PortQueueOption = None,
    size: Annotated[str, typer.Option("--size", help="Bytes each rank dispatches on average.")] = "750kB",
    skew: Annotated[float, typer.Option("--skew", help="Zipf exponent of what is dispatched.")] = 0.8,
    repeat: Annotated[int, typer.Option("--repeat", help="Timed repetitions of each way.")] = 5,
    algorithms: Annotated[str, typer.Option("--algorithms", help="Comma-separated ways.")] = "serial,concurrent,joint",
    calibrate_s: Annotated[
        float, typer.Option("--calibrate", help="Seconds to measure each tier before planning; 0: as declared.")
    ] = 2.0,
    seed: SeedOption = 0,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a step over real sockets, computation as sleeps, in every way; check every value.

    Dispatch, computation and combine beside Reduce-Scatters among the same GPUs of all servers, which are ready first
    and can wait; all about as long alone.

    Examples:

      interlock lab step --nic 2Mbit --scale-up 20Mbit --port-queue 40kB --size 1MB --skew 0.4 --repeat 3
    """
    _need_torch()
    from interlock.lab import compare_step_in_lab, dispatched, ranks_in

    _check_repeat(repeat)
    names = [word.strip() for word in algorithms.split(",") if word.strip()]
    size_bytes = parse_bytes(size, "--size")
    asked = _Asked(servers, gpus, nic, scale_up, None, port_queue)
    with _network(name, asked, STEP_NETWORK) as network, progress_of(4, "lab") as say:
        say("starting ranks")
        with ranks_in(network) as ranks:
            rows = compare_step_in_lab(
                ranks,
                network.spec,
                size_bytes,
                names,
                repeat=repeat,
                calibrate_s=calibrate_s,
                skew=skew,
                seed=seed,
                progress=say,
            )
    title = f"layer beside Reduce-Scatters, {size} per rank, {_network_name(network.spec)}"
    uneven = dispatched(network.spec.to_cluster(), size_bytes, skew, seed).unevenness
    if as_json:
        problem = {"name": title, "unevenness": asdict(uneven)}
        print_json({"problem": problem, "results": [asdict(row) for row in rows], "times_are": "measured"})
    else:
        cells = [
            [
                row.algorithm,
                format_seconds(row.measured_s),
                f"{format_seconds(row.measured_least_s)} to {format_seconds(row.measured_most_s)}",
                format_seconds(row.predicted_s),
                format_seconds(row.lower_bound_s),
                "yes" if row.valid else "NO",
            ]
            for row in rows
        ]
        header = ["way", "measured", "least to most", "predicted", "bound", "valid"]
        notes = ["Measured is the median, of the slowest rank each time.", f"Traffic of dispatch: {uneven.summary}."]
        print_table(title, header, cells, notes)
    return 0 if all(row.valid for row in rows) else 1


@app.command("calibrate")
def calibrate(
    servers: ServersOption = None,
    gpus: GpusOption = None,
    nic: NicOption = None,
    scale_up: ScaleUpOption = None,
    nic_of: NicOfOption = None,
    port_queue: PortQueueOption = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Roughly how long to measure each tier.")] = 2.0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="TOML file to write.")] = None,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure bandwidth and latency of both tiers as ranks see them, and describe them as a cluster.

    Examples:

      interlock lab calibrate -o lab.toml
    """
    _need_torch()
    from interlock.lab import ranks_in
    from interlock.lab.jobs import calibrated
    from interlock.topology import cluster_to_toml, write_cluster

    outputs = Outputs({"-o": output})
    asked = _Asked(servers, gpus, nic, scale_up, nic_of, port_queue)
    with _network(name, asked) as network, ranks_in(network) as ranks:
        made = ranks.call(calibrated, network.spec.gpus, seconds)[0]
    if output is not None:
        write_cluster(made, output)
    if as_json:
        fields = ["servers", "gpus_per_server", "scale_up_bandwidth_bytes_per_s", "scale_up_latency_s"]
        fields += ["scale_out_bandwidth_bytes_per_s", "scale_out_latency_s", "message_overhead_s", "stage_overhead_s"]
        print_json({field: getattr(made, field) for field in fields})
    else:
        typer.echo(cluster_to_toml(made), nl=False)
    outputs.say()
    return 0


@app.command("up")
def up(
    name: Annotated[str, typer.Option("--name", help="Name of the lab.")] = "lab",
    servers: ServersOption = None,
    gpus: GpusOption = None,
    nic: NicOption = None,
    scale_up: ScaleUpOption = None,
    nic_of: NicOfOption = None,
    port_queue: PortQueueOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a lab that stays until `lab down`.

    Examples:

      interlock lab up --servers 2 --gpus 4
    """
    from interlock.lab import LabNetwork

    network = LabNetwork(_Asked(servers, gpus, nic, scale_up, nic_of, port_queue).spec(), name)
    network.up()
    num_ranks = network.spec.num_ranks
    made = {"name": name, "hub": network.hub, "namespaces": [network.namespace(rank) for rank in range(num_ranks)]}
    if as_json:
        print_json(made)
    else:
        typer.echo(f"{name}: {num_ranks} namespaces, {network.namespace(0)} and so on; hub {network.hub}")
    return 0


@app.command("down")
def down(
    name: Annotated[str, typer.Option("--name", help="Name of the lab.")] = "lab", as_json: JsonOption = False
) -> int:
    """Remove a lab and end what runs in it, also labs whose run was killed before it could clean up.

    Examples:

      interlock lab down
    """
    from interlock.lab import LabNetwork, check_available, reap, running

    check_available()
    gone = reap()
    labs = running()
    if name in labs:
        LabNetwork(labs[name], name).down()
        gone.append(name)
    if as_json:
        print_json({"removed": gone})
    else:
        typer.echo(f"removed: {', '.join(gone) or 'nothing'}")
    return 0


@app.command("list")
def list_labs(as_json: JsonOption = False) -> int:
    """Show labs that are up.

    Examples:

      interlock lab list
    """
    from interlock.lab import check_available, running

    check_available()
    labs = running()
    if as_json:
        print_json({name: {"servers": spec.servers, "gpus": spec.gpus} for name, spec in labs.items()})
    else:
        rows = [
            [name, f"{lab.servers}x{lab.gpus}", format_bandwidth(lab.nic_bytes_per_s)] for name, lab in labs.items()
        ]
        print_table("labs that are up", ["name", "shape", "NIC"], rows)
    return 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """What options say of a lab."""

    servers: int | None
    gpus: int | None
    nic: str | None
    scale_up: str | None
    nic_of: list[str] | None
    port_queue: str | None

    def spec(self, rates: tuple[str, str, str] = NETWORK) -> LabSpec:
        """The lab, with defaults for what is not said."""
        from interlock.lab import LabSpec

        nic, scale_up, port_queue = rates
        overrides: dict[int, float] = {}
        for override in self.nic_of or []:
            before, _, rate = override.partition("=")
            rank = whole_or_none(before)
            if rank is None or not rate:
                raise InvalidInput(f"--nic-of {override!r} must have the form RANK=RATE, like 3=25Mbit or 3=0")
            overrides[rank] = 0.0 if rate.strip() == "0" else parse_bandwidth(rate, "--nic-of")
        return LabSpec(
            4 if self.servers is None else self.servers,
            4 if self.gpus is None else self.gpus,
            parse_bandwidth(nic if self.nic is None else self.nic, "--nic"),
            parse_bandwidth(scale_up if self.scale_up is None else self.scale_up, "--scale-up"),
            overrides,
            parse_bytes(port_queue if self.port_queue is None else self.port_queue, "--port-queue"),
        )


def _network_name(spec: LabSpec) -> str:
    """Its shape and rates, and what a gain over torch's own call hangs on: how deep ports are, and which TCP it is."""
    from interlock.lab import congestion_control

    nic, scale_up = (f"{8e-6 * rate:g} Mb/s" for rate in (spec.nic_bytes_per_s, spec.scale_up_bytes_per_s))
    ports = f"ports of {format_bytes(spec.port_queue_bytes)}, TCP {congestion_control()}"
    return f"{spec.servers}x{spec.gpus}, NICs {nic}, scale-up {scale_up}, {ports}"


@contextmanager
def _network(name: str | None, asked: _Asked, rates: tuple[str, str, str] = NETWORK) -> Iterator[LabNetwork]:
    """A lab that is up: the named one, or one for this command that goes whatever ends the command."""
    from interlock.lab import LabNetwork, check_available, reap, running

    if name is not None:
        said = {f"--{field.replace('_', '-')}": value for field, value in asdict(asked).items() if value != []}
        refuse(said, f"the lab {name} is as `lab up` made it")
    spec = asked.spec(rates)
    check_available()
    reap()
    if name is not None:
        labs = running()
        if name not in labs:
            raise InvalidInput(f"no lab named {name!r} is up; `interlock lab up --name {name}` makes one")
        yield LabNetwork(labs[name], name)
        return
    network = LabNetwork(spec)
    keep("nothing of the lab is left")
    with _signals_raise(), cleaned_up("interlock: ending the ranks and removing their network", network.down), network:
        yield network
    keep("what was not yet whole is not written")


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let the first signal unwind the stack, so that everything made is removed, and no other disturb that."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def leave(number: int, frame: FrameType | None) -> None:
        for each in ending:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in ending}
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is leave:
            for number, handler in before.items():
                signal.signal(number, handler)


def _need_torch() -> None:
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        raise MissingDependency("lab ranks need torch: pip install 'interlock[torch]'") from None


def _write_page(page: Path, title: str, rows: tuple[LabRow, ...], spec: LabSpec, demand: Demand) -> None:
    """The report page; plans are drawn on the network as declared."""
    from interlock.planning import solve
    from interlock.problem import demand_problem
    from interlock.report.lab_page import save_lab_page

    problem = demand_problem(spec.to_cluster(), demand)
    plans = [solve(problem, row.algorithm) for row in rows if row.algorithm != "native"]
    save_lab_page(title, [row.to_dict() for row in rows], demand, plans, page, command_line())


def _print_rows(title: str, rows: tuple[LabRow, ...]) -> None:
    from interlock.report.lab_page import HEADER, cells

    notes = [
        "Measured over real sockets; median of the slowest rank. The bound counts headers. native is torch's own call.",
        "total is measured + exchange + planning: one call whose sizes are not known beforehand.",
    ]
    drop = ("least", "most", "bound", "exchange", "planning", "predicted")
    print_table(title, HEADER, [cells(row.to_dict()) for row in rows], notes, drop=drop)
