"""Steps of several collectives: `joint` against the better of `serial` and `concurrent`, and against the bound.

Three families, drawn from `--seed` on: an expert-parallel layer beside data traffic, two micro-batches that overlap
with gradients, FSDP around an expert-parallel chain; and the presets. Times are simulated (tolerance 1e-3). Collectives
are sized by the seconds that the tier-by-tier planner takes for them alone. `--minutes` ends the drawing early; what is
measured is kept in the file `--kept` as it comes and not measured again. `--first` and `--steps` say which are drawn.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numpy as np

import interlock as il
from common import arguments, report
from interlock.algorithms import registry
from interlock.problem import collective_problem, read_step, step_presets
from interlock.simulate import simulate

WAYS = ("serial", "concurrent", "joint")


def fitted(cluster: il.Cluster, kind: object, group: list[int] | None, seconds: float) -> il.Collective:
    """A collective that takes about so long by itself."""
    size = 64 << 20
    problem = collective_problem(cluster.topology, kind(size, group=group), cluster=cluster)
    alone_s = simulate(registry.get("tiers").build(problem), problem, tolerance=1e-2).makespan_s
    return kind(max(1 << 20, int(size * seconds / alone_s) >> 16 << 16), group=group)


def draw(rng: random.Random) -> tuple[str, il.Step]:
    """A family's name and a step of it."""
    servers = rng.choice((2, 2, 4, 4, 8))
    cluster = il.cluster(rng.choice(("h200", "a100")), servers=servers)
    gpus, everyone = cluster.gpus_per_server, list(range(cluster.num_ranks))
    size, skew = rng.choice(("8 MB", "64 MB", "256 MB")), rng.choice((0.4, 0.8, 1.2))
    group = rng.choice((None, everyone[::gpus], everyone[::2], [r for r in everyone if r % gpus < gpus // 2]))
    demands = [il.traffic.zipf(cluster, skew=skew, bytes_per_gpu=size, seed=rng.randrange(1 << 30)) for _ in range(3)]
    chain_s = il.plan(cluster, demands[0]).simulate(tolerance=1e-2).makespan_s
    work_s, share = chain_s * rng.choice((0.25, 0.5, 1.0, 2.0)), rng.uniform(0.2, 0.8)
    family = rng.choice(("layer", "pair", "fsdp"))
    step = il.step(cluster)
    if family == "layer":
        dispatch = step.move("dispatch", demands[0])
        experts = step.compute("experts", work_s, after=dispatch)
        step.move("combine", demands[0].transposed(), after=experts)
        kind = rng.choice((il.reduce_scatter, il.all_gather, il.all_reduce))
        data = fitted(cluster, kind, group, share * (2 * chain_s + work_s))
        step.move("data", data, ready=rng.choice((0.0, 0.1, 0.3)) * chain_s)
    elif family == "pair":
        dispatch = step.move("dispatch F", demands[0])
        experts = step.compute("experts F", work_s, after=dispatch)
        combine = step.move("combine F", demands[0].transposed(), after=experts)
        step.compute("attention F", work_s, after=combine)
        back = step.move("combine B", demands[1], after=step.compute("attention B", work_s / 2))
        experts = step.compute("experts B", work_s, after=back)
        step.move("dispatch B", demands[1].transposed(), after=experts)
        step.move("gradients", fitted(cluster, il.reduce_scatter, group, share * (2 * chain_s + work_s)))
    else:
        before: list[il.Task] = []
        for layer in range(rng.choice((2, 3))):
            gather = step.move(f"parameters {layer}", fitted(cluster, il.all_gather, group, share * chain_s))
            dispatch = step.move(f"dispatch {layer}", demands[layer], after=before)
            experts = step.compute(f"experts {layer}", work_s, after=[dispatch, gather])
            before = [step.move(f"combine {layer}", demands[layer].transposed(), after=experts)]
            scatter = fitted(cluster, il.reduce_scatter, group, share * chain_s)
            step.move(f"gradients {layer}", scatter, after=experts)
    return family, step


def measured(name: str, family: str, step: il.Step) -> dict[str, object]:
    """All three ways of a step."""
    times, row = {}, {"step": name, "family": family, "tasks": len(step.tasks)}
    row |= {"cluster": f"{step.cluster.servers}x{step.cluster.gpus_per_server} {step.cluster.name}"}
    for way in WAYS:
        start = time.process_time()
        plan = il.plan(step, algorithm=way)
        took_s = time.process_time() - start
        proof = plan.certificate(tolerance=1e-3)
        assert proof.valid, proof.violations
        assert proof.makespan_s >= proof.lower_bound_s * 0.998
        times[way] = proof.makespan_s
        row |= {f"{way}_us": 1e6 * proof.makespan_s}
    gain = min(times["serial"], times["concurrent"]) / times["joint"]
    return row | {"gain": gain, "over_bound": times["joint"] / proof.lower_bound_s, "plan_cpu_s": took_s}


def main() -> None:
    """Presets and families."""
    options = arguments(__doc__ or "", steps=300, first=0, minutes=600.0, kept="")
    end_s = time.monotonic() + 60 * options.minutes
    kept = Path(options.kept) if options.kept else None
    lines = kept.read_text().splitlines() if kept and kept.exists() else []
    drawn = {int(row["step"].split()[-1]): row for row in map(json.loads, lines)}
    for number in range(options.first, options.steps):
        if time.monotonic() > end_s:
            break
        if number not in drawn:
            family, step = draw(random.Random(f"bench {options.seed} {number}"))
            drawn[number] = measured(f"{family} {number}", family, step)
            print(drawn[number], flush=True)
            if kept:
                kept.open("a").write(json.dumps(drawn[number]) + "\n")
    drawn = [drawn[number] for number in sorted(drawn)]
    rows = [measured(name, "preset", read_step(name)) for name in step_presets()] + drawn
    gains, over = np.array([row["gain"] for row in drawn]), np.array([row["over_bound"] for row in drawn])
    report(
        "step",
        rows,
        options,
        steps_drawn=len(drawn),
        mean_gain=float(gains.mean()),
        least_gain=float(gains.min()),
        mean_over_bound=float(over.mean()),
        worst_over_bound=float(over.max()),
    )


if __name__ == "__main__":
    main()
