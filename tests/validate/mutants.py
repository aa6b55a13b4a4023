"""Ways to break a valid schedule, and ways to change it without harm.

Each takes a copy of a case and a random generator, and gives the changed case, or None where it does not apply. Those
in HARMFUL break any of the hand-built cases, where every message is needed; those in DOUBTFUL may or may not, and the
slow reference says which; those in HARMLESS never do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from validate.rows import COPY, REDUCE, Case, Row

Change = Callable[[Case, Random], Case | None]


def drop_message(case: Case, random: Random) -> Case | None:
    """One message is never sent; what depended on it no longer waits for it."""
    gone = random.randrange(len(case.rows))
    del case.rows[gone]
    for row in case.rows:
        row.deps = [dep - (dep > gone) for dep in row.deps if dep != gone]
    return case


def double_message(case: Case, random: Random) -> Case | None:
    """A message is sent a second time, after the first."""
    again = random.randrange(len(case.rows))
    row = case.rows[again]
    case.rows.append(replace(row, deps=sorted({*row.deps, again}), order=_unused_order(case, row)))
    return case


def shorten_piece(case: Case, random: Random) -> Case | None:
    """A piece loses bytes at its end or beginning."""
    row, k = _piece(case, random)
    item, offset, length = row.pieces[k]
    cut = random.randint(1, length)
    row.pieces[k] = (item, offset + cut * random.randint(0, 1), length - cut)
    row.padding += cut
    if length == cut:
        del row.pieces[k]
    return case


def shift_piece(case: Case, random: Random) -> Case | None:
    """A piece is off by one byte."""
    row, k = _piece(case, random)
    item, offset, length = row.pieces[k]
    row.pieces[k] = (item, offset + random.choice([-1, 1]), length)
    return case


def drop_piece(case: Case, random: Random) -> Case | None:
    """One of a message's pieces is left out."""
    row, k = _piece(case, random)
    row.padding += row.pieces[k][2]
    del row.pieces[k]
    return case


def swap_item(case: Case, random: Random) -> Case | None:
    """A piece takes another item's bytes."""
    row, k = _piece(case, random)
    item, offset, length = row.pieces[k]
    others = [other for other in range(len(case.sizes)) if other != item]
    if not others:
        return None
    row.pieces[k] = (random.choice(others), offset, length)
    return case


def redirect(case: Case, random: Random) -> Case | None:
    """A message goes to another rank."""
    row = random.choice(case.rows)
    others = [rank for rank in range(case.topology.num_ranks) if rank not in row.src + row.dst]
    if not others:
        return None
    row.dst[random.randrange(len(row.dst))] = random.choice(others)
    if len(row.src) == len(row.dst) == 1 and random.random() < 0.5:
        row.path = []
    return case


def forget_destination(case: Case, random: Random) -> Case | None:
    """A multicast leaves out one of its receivers, path and all."""
    row = random.choice(case.rows)
    if len(row.dst) < 2:
        return None
    gone = row.dst.pop(random.randrange(len(row.dst)))
    row.path = [link for link in row.path if case.topology.link_dst[link] != gone]
    return case


def forget_source(case: Case, random: Random) -> Case | None:
    """An in-switch reduction leaves out one contribution, path and all."""
    row = random.choice(case.rows)
    if len(row.src) < 2:
        return None
    gone = row.src.pop(random.randrange(len(row.src)))
    row.path = [link for link in row.path if case.topology.link_src[link] != gone]
    return case


def double_one_miss_another(case: Case, random: Random) -> Case | None:
    """One contribution enters a sum twice and another not at all, so that their number is right."""
    sums = [row for row in case.rows if row.kind == REDUCE and len(row.src) == 1]
    row = random.choice(sums) if sums else None
    rivals = [other for other in sums if other is not row and row is not None and other.dst == row.dst
              and other.pieces == row.pieces]  # fmt: skip
    if row is None or not rivals:
        return None
    rival = random.choice(rivals)
    row.src, row.path, row.deps = list(rival.src), list(rival.path), list(rival.deps)
    return case


def flip_kind(case: Case, random: Random) -> Case | None:
    """A sum is overwritten instead of added to, or added to instead of replaced."""
    row = random.choice(case.rows)
    is_sum = any(len(case.contributors[item]) > 1 for item, _, _ in row.pieces)
    receiver_adds = all(rank in case.contributors[item] for item, _, _ in row.pieces for rank in row.dst)
    if not is_sum or not receiver_adds:
        return None
    row.kind = COPY if row.kind == REDUCE else REDUCE
    return case


def forget_dependency(case: Case, random: Random) -> Case | None:
    """A message no longer waits for what brings the bytes it sends."""
    waiting = [row for row in case.rows if row.deps]
    if not waiting or case.barriers:
        return None
    row = random.choice(waiting)
    gone = row.deps[random.randrange(len(row.deps))]
    if not _brings_bytes(case, gone, row):
        return None
    row.deps = [dep for dep in row.deps if dep != gone]
    return case


def wait_in_a_circle(case: Case, random: Random) -> Case | None:
    """Something that must come first waits for something that must come after."""
    numbers = [number for number, row in enumerate(case.rows) if row.deps]
    if not numbers:
        return None
    start = last = random.choice(numbers)
    for _ in case.rows:  # at most: a row may wait for itself already
        if not case.rows[last].deps or (last != start and random.random() >= 0.7):
            break
        last = random.choice(case.rows[last].deps)
    case.rows[last].deps = sorted({*case.rows[last].deps, start})
    return case


def repeat_order(case: Case, random: Random) -> Case | None:
    """Two messages claim the same place on a link."""
    pair = _two_on_one_link(case, random)
    if pair is None:
        return None
    pair[0].order = pair[1].order
    return case


def share_exclusive_link(case: Case, random: Random) -> Case | None:
    """A message uses a link that others hold for themselves."""
    pair = _two_on_one_link(case, random)
    if pair is None:
        return None
    pair[0].order = None
    return case


def break_path(case: Case, random: Random) -> Case | None:
    """A link of a path is another one, doubled, left out, or none of the topology."""
    routed = [row for row in case.rows if row.path]
    if not routed:
        return None
    row = random.choice(routed)
    k = random.randrange(len(row.path))
    links = [link for link in range(case.topology.num_links) if link not in row.path]
    choice = random.randrange(4)
    if choice == 0 and links:
        row.path[k] = random.choice(links)
    elif choice == 1:
        row.path.insert(k, row.path[k])
    elif choice == 2 and len(row.path) > 1:
        del row.path[k]
    else:
        row.path[k] = random.choice([-1, case.topology.num_links, 2**31 - 1])
    return case


def shrink_message(case: Case, random: Random) -> Case | None:
    """A message is smaller than what it carries."""
    row = random.choice(case.rows)
    row.padding = -random.randint(1, 3)
    return case


def name_nothing(case: Case, random: Random) -> Case | None:
    """An id that does not exist, an empty or an outlying piece."""
    row, k = _piece(case, random)
    item, offset, length = row.pieces[k]
    choice = random.randrange(6)
    if choice == 0:
        row.pieces[k] = (random.choice([-1, len(case.sizes)]), offset, length)
    elif choice == 1:
        row.pieces[k] = (item, offset, random.choice([0, -length, 2**62, case.sizes[item] - offset + 1]))
    elif choice == 2:
        row.pieces[k] = (item, random.choice([-1, 2**62, case.sizes[item]]), length)
    elif choice == 3:
        row.src[0] = random.choice([-1, case.topology.num_ranks])
    elif choice == 4:
        row.dst[0] = random.choice([-5, case.topology.num_ranks, row.src[0]])
    else:
        row.deps = random.choice([[-1], [len(case.rows)], [case.rows.index(row)]])
    return case


def forget_barrier(case: Case, random: Random) -> Case | None:
    """A barrier that holds stages apart is gone."""
    if not case.barriers:
        return None
    del case.barriers[random.randrange(len(case.barriers))]
    return case


def lengthen_piece(case: Case, random: Random) -> Case | None:
    """A piece takes a byte more at either end."""
    row, k = _piece(case, random)
    item, offset, length = row.pieces[k]
    row.pieces[k] = (item, offset - random.randint(0, 1), length + 1)
    return case


def add_message(case: Case, random: Random) -> Case | None:
    """One more message, between any ranks, of any bytes, waiting for anything."""
    item = random.randrange(len(case.sizes))
    offset = random.randrange(case.sizes[item]) if random.random() < 0.5 else 0
    piece = (item, offset, random.randint(1, case.sizes[item] - offset))
    src, dst = random.sample(range(case.topology.num_ranks), 2)
    deps = set(random.sample(range(len(case.rows)), random.randint(0, min(3, len(case.rows)))))
    if random.random() < 0.8:  # also for what brought the bytes to the sender: a chance of being right
        deps |= {k for k, row in enumerate(case.rows) if src in row.dst and any(held[0] == item for held in row.pieces)}
    kind = random.choice([COPY, REDUCE])
    case.send(src, dst, piece, kind=kind, deps=sorted(deps), stage=random.randint(0, 6))
    return case


def change_source(case: Case, random: Random) -> Case | None:
    """A message is sent by another rank."""
    row = random.choice(case.rows)
    row.src[random.randrange(len(row.src))] = random.randrange(case.topology.num_ranks)
    if len(row.src) == len(row.dst) == 1:
        row.path = []
    return case


def change_dependency(case: Case, random: Random) -> Case | None:
    """A message waits for another message instead."""
    row = random.choice(case.rows)
    kept = row.deps[1:] if random.random() < 0.7 else row.deps
    row.deps = sorted({*kept, random.randrange(len(case.rows))})
    return case


def swap_order(case: Case, random: Random) -> Case | None:
    """Two messages change places in a link's order."""
    pair = _two_on_one_link(case, random)
    if pair is None:
        return None
    pair[0].order, pair[1].order = pair[1].order, pair[0].order
    return case


def change_stage(case: Case, random: Random) -> Case | None:
    """A message moves to another stage."""
    random.choice(case.rows).stage = random.randint(0, 6)
    return case


def swap_pieces(case: Case, random: Random) -> Case | None:
    """Two messages carry each other's bytes."""
    a, b = random.choice(case.rows), random.choice(case.rows)
    a.pieces, b.pieces = b.pieces, a.pieces
    return case


def any_kind(case: Case, random: Random) -> Case | None:
    """A copy becomes a reduce or the other way round, whatever it carries."""
    row = random.choice(case.rows)
    row.kind = 1 - row.kind
    return case


def permute_rows(case: Case, random: Random) -> Case | None:
    """Messages are listed in another order; ids follow."""
    order = list(range(len(case.rows)))
    random.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    case.rows = [case.rows[old] for old in order]
    for row in case.rows:
        row.deps = sorted(place[dep] for dep in row.deps)
    return case


def rename_items(case: Case, random: Random) -> Case | None:
    """Items are numbered otherwise."""
    order = list(range(len(case.sizes)))
    random.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    case.sizes = [case.sizes[old] for old in order]
    case.contributors = [case.contributors[old] for old in order]
    case.destinations = [case.destinations[old] for old in order]
    for row in case.rows:
        row.pieces = [(place[item], offset, length) for item, offset, length in row.pieces]
        random.shuffle(row.pieces)
    return case


def split_piece(case: Case, random: Random) -> Case | None:
    """A piece is listed as two."""
    row, k = _piece(case, random)
    item, offset, length = row.pieces[k]
    if length < 2:
        return None
    cut = random.randint(1, length - 1)
    row.pieces[k : k + 1] = [(item, offset, cut), (item, offset + cut, length - cut)]
    return case


def pad_and_spread(case: Case, random: Random) -> Case | None:
    """Messages are larger than they need to be, places in link orders further apart."""
    for row in case.rows:
        row.padding += random.randint(0, 5)
        if row.order is not None:
            row.order = row.order * 1000 - 5
    return case


def wait_needlessly(case: Case, random: Random) -> Case | None:
    """A message also waits for what its dependencies waited for."""
    for row in case.rows:
        row.deps = sorted({*row.deps, *(far for dep in row.deps for far in case.rows[dep].deps)})
    return case


HARMFUL: list[Change] = [
    drop_message,
    double_message,
    shorten_piece,
    shift_piece,
    drop_piece,
    swap_item,
    forget_destination,
    forget_source,
    double_one_miss_another,
    flip_kind,
    forget_dependency,
    wait_in_a_circle,
    repeat_order,
    share_exclusive_link,
    break_path,
    shrink_message,
    name_nothing,
    forget_barrier,
]
DOUBTFUL: list[Change] = [
    add_message,
    redirect,
    lengthen_piece,
    change_source,
    change_dependency,
    swap_order,
    change_stage,
    swap_pieces,
    any_kind,
]
HARMLESS: list[Change] = [permute_rows, rename_items, split_piece, pad_and_spread, wait_needlessly]


def _piece(case: Case, random: Random) -> tuple[Row, int]:
    row = random.choice([row for row in case.rows if row.pieces])
    return row, random.randrange(len(row.pieces))


def _unused_order(case: Case, row: Row) -> int | None:
    if row.order is None:
        return None
    return 1 + max(other.order for other in case.rows if other.order is not None)


def _brings_bytes(case: Case, brings: int, row: Row) -> bool:
    """Whether message `brings` delivers something to a source of `row` that it sends on."""
    before = case.rows[brings]
    return any(
        item == other and offset < first + length and first < offset + size
        for item, offset, size in before.pieces
        for other, first, length in row.pieces
        for rank in before.dst
        if rank in row.src
    )


def _two_on_one_link(case: Case, random: Random) -> tuple[Row, Row] | None:
    pairs = [
        (a, b)
        for a in case.rows
        for b in case.rows
        if a is not b and a.order is not None and b.order is not None and set(a.path) & set(b.path)
    ]
    return random.choice(pairs) if pairs else None
