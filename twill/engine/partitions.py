"""Natural partitions, which are tried first.

Takes a `Problem`; gives group labels per operation, simplest first: everything together, one group per
independent sub-tile, issuers of asynchronous work apart, tile-sized pieces apart or joined with their like;
then sub-tiles, more than there are groups, dealt to the groups.
They only order the search: a schedule found under one is a schedule, a partition that fails proves nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, combinations, count, pairwise

from twill.engine.clusters import clusters
from twill.engine.connected import components
from twill.ir.problem import Problem, Time

LARGE = 48
"""Operations above which natural partitions keep what rule TOGETHER ties: most of those of a large loop had
no schedule, while a solver finds others soon for a small one."""

PIECES = 3
"""Groups into which the order of the program is cut at most ..."""

CUTS = 2
"""... in so many ways ..."""

PLACES = 32
"""... at about so many places, where there are more than two groups ..."""

DIVIDED = 300
"""... of a loop of so many operations at most: that takes up to a second."""

Labels = tuple[int, ...]
"""Group label of every operation; the loads' label is 0 where there are loads."""


def partitions(problem: Problem) -> tuple[Labels, ...]:
    """Distinct candidate partitions within the machine's group limit, in the order to try."""
    loads = [i for i, op in enumerate(problem.operations) if op.variable]
    rest = [i for i, op in enumerate(problem.operations) if not op.variable]
    narrow = [i for i in rest if problem.operations[i].warps == 1]
    wide = [i for i in rest if problem.operations[i].warps > 1]
    tiles, pieces = _connected(problem, rest), _connected(problem, wide)
    shares = [part for piece in pieces for part in _tile_pieces(problem, piece)]
    splits: list[Iterable[Sequence[int]]] = [
        tiles,
        [*pieces, narrow],
        [*_alike(problem, shares), narrow],
        [*_small_joined(problem, shares), narrow],
        [*shares, narrow],
        [rest],
        [wide, narrow],
    ]
    found = [_labels(problem, [loads, *split]) for split in splits]
    limit = problem.limits.groups
    room = limit - bool(loads) - bool(narrow)
    counts = range(room, 1, -1) if len(pieces) > room else ()
    found += [_labels(problem, [loads, *_dealt(pieces, count), narrow]) for count in counts]
    if len(problem.operations) > LARGE:
        found = [_together(problem, labels) for labels in found]
    if problem.apart and all(_torn(problem, labels) or _split(problem, labels) for labels in found):
        order = range(len(problem.operations))
        found += [_grown(problem, order), _grown(problem, order[::-1])]
    return tuple(dict.fromkeys(labels for labels in found if len(set(labels)) <= limit))


def _grown(problem: Problem, order: Sequence[int]) -> Labels:
    """What rule APART names in groups of its own; what is left joins, in this order, the group with which it
    shares the most bytes, after all that is tied to it."""
    tied = clusters(problem)
    label: dict[int, int] = {c: 0 for c, loads in enumerate(tied.variable) if loads}
    for c in sorted({c for pair in tied.apart for c in pair} - set(label)):
        taken = {
            label[b] for a, b in (*tied.apart, *((y, x) for x, y in tied.apart)) if a == c and b in label
        }
        label[c] = next(g for g in count(1) if g not in taken)
    size = _bytes(problem)
    links = [
        (tied.of[problem.index(e.src)], tied.of[problem.index(e.dst)], 1 + size.get(e.src, 0))
        for e in problem.edges
    ]
    waiting = list(dict.fromkeys(tied.of[op] for op in order if tied.of[op] not in label))
    while waiting:
        shared = {c: _shared_with(c, links, label) for c in waiting}
        c = next((c for c in waiting if shared[c]), waiting[0])
        label[c] = max(shared[c] or {1: 0}, key=lambda g: shared[c][g])
        waiting.remove(c)
    return tuple(label[c] for c in tied.of)


def _shared_with(
    cluster: int, links: Sequence[tuple[int, int, int]], label: Mapping[int, int]
) -> Counter[int]:
    """Bytes that a cluster shares with each group that computes."""
    found = Counter[int]()
    for a, b, size in links:
        other = b if a == cluster else a
        if cluster in (a, b) and label.get(other, 0):
            found[label[other]] += size
    return found


def cut_if_large(problem: Problem, interval: Time) -> tuple[Labels, ...]:
    """The same of a large loop; for a small one a solver finds simpler partitions."""
    return cut_if_needed(problem, interval) if len(problem.operations) > LARGE else ()


def cut_if_needed(problem: Problem, interval: Time) -> tuple[Labels, ...]:
    """The order of the program cut into groups, where no natural partition with hardly more groups than can
    issue the work in an interval does so."""
    issued, loads = _issued(problem), any(op.variable for op in problem.operations)
    most = -(-sum(issued) // interval) + loads + 1
    natural = (labels for labels in partitions(problem) if len(set(labels)) <= most)
    return () if any(_most_issued(one, issued) <= interval for one in natural) else cut(problem, interval)


def cut(problem: Problem, interval: Time) -> tuple[Labels, ...]:
    """The operations that compute in the order of the program, cut into as few groups as can issue them in an
    interval, or as there are: of the ways in which they can, or which are the most even, those in which
    the fewest bytes cross groups. What rule TOGETHER ties is brought together."""
    issued, loads = _issued(problem), any(op.variable for op in problem.operations)
    needed, free = -(-sum(issued) // interval), problem.limits.groups - loads
    if needed < 2 or free < 2 or len(issued) > DIVIDED:
        return ()
    count = min(needed, PIECES, free)
    found: dict[Labels, tuple[Time, int, Time]] = {}
    for labels in _cuts(problem, count):
        most = _most_issued(labels, issued)
        if len(set(labels)) == count + loads and not _torn(problem, labels):
            found.setdefault(labels, (max(0, most - interval), _crossing_bytes(problem, labels), most))
    return tuple(sorted(found, key=found.__getitem__)[:CUTS])


def _issued(problem: Problem) -> list[Time]:
    """For how long each operation that computes keeps its group."""
    return [0 if op.variable else problem.held(op) for op in problem.operations]


def _cuts(problem: Problem, count: int) -> Iterator[Labels]:
    loads = any(op.variable for op in problem.operations)
    computing = [i for i, op in enumerate(problem.operations) if not op.variable]
    places = computing[1 :: 1 + (count > 2) * len(computing) // PLACES]
    for ends in combinations(places, count - 1):
        pieces = accumulate(int(i in ends) for i in range(len(problem.operations)))
        pairs = zip(problem.operations, pieces, strict=True)
        yield _together(problem, tuple(0 if op.variable else loads + piece for op, piece in pairs))


def _most_issued(labels: Labels, issued: Sequence[Time]) -> Time:
    """Of a group."""
    of_group = Counter[int]()
    for group, time in zip(labels, issued, strict=True):
        of_group[group] += time
    return max(of_group.values(), default=0)


def _split(problem: Problem, labels: Labels) -> bool:
    """It breaks rule TOGETHER."""
    return any(len({labels[op] for op in members}) > 1 for members in clusters(problem).members)


def _torn(problem: Problem, labels: Labels) -> bool:
    """It breaks rule APART."""
    return any(labels[problem.index(a)] == labels[problem.index(b)] for a, b in problem.apart)


def _bytes(problem: Problem) -> Mapping[str, int]:
    """Of what an operation hands on, by its id."""
    return {value.src: max(value.staging, value.shared) for value in problem.values}


def _crossing_bytes(problem: Problem, labels: Labels) -> int:
    """Bytes that pass between groups, and one for each edge that crosses."""
    ends = ((problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges)
    crossing = {
        (a, labels[b]) for a, b in ends if labels[a] != labels[b] and not problem.operations[a].streaming
    }
    size = _bytes(problem)
    return sum(1 + size.get(problem.operations[a].id, 0) for a, _ in crossing)


def kept_together(problem: Problem) -> tuple[Labels, ...]:
    """More partitions of a loop of which operations are tied, where each natural one into several groups that
    compute splits those: with what is tied brought together in them; what is tied apart from the pieces that
    are left, or from all of them."""
    known, loads = partitions(problem), any(op.variable for op in problem.operations)
    if any(len(set(labels)) > 1 + loads and _together(problem, labels) == labels for labels in known):
        return ()
    found = dict.fromkeys((*(_together(problem, labels) for labels in known), *_tied_apart(problem)))
    return tuple(labels for labels in found if labels not in known)


def _tied_apart(problem: Problem) -> Iterator[Labels]:
    found = clusters(problem)
    computing = [ops for ops, loads in zip(found.members, found.variable, strict=True) if not loads]
    loads = [i for i, op in enumerate(problem.operations) if op.variable]
    tied = [op for ops in computing if len(ops) > 1 for op in ops]
    rest = sorted(op for ops in computing if len(ops) == 1 for op in ops)
    for split in ([tied, *_connected(problem, rest)], [tied, rest]) if tied and rest else ():
        labels = _labels(problem, [loads, *split])
        if len(set(labels)) <= problem.limits.groups:
            yield labels


def _together(problem: Problem, labels: Labels) -> Labels:
    """The partition with what is tied in the group that issues most of it: light operations would otherwise
    be dealt to several groups."""
    label = list(labels)
    for members in clusters(problem).members:
        issued = Counter[int]()
        for op in members:
            issued[label[op]] += problem.operations[op].issue
        home = max(issued, key=lambda group: (issued[group], -group))
        for op in members:
            label[op] = home
    numbers = {group: number for number, group in enumerate(sorted(set(label)))}
    return tuple(numbers[group] for group in label)


def _connected(problem: Problem, ops: Sequence[int]) -> list[list[int]]:
    """The pieces of the dependence graph within `ops`."""
    chosen = set(ops)
    ends = [(problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges]
    groups = [[problem.index(op) for op in same] for same in problem.together]
    links = [*ends, *(pair for same in groups for pair in pairwise(same))]
    parts = components(ops, ((a, b) for a, b in links if a in chosen and b in chosen))
    return sorted(sorted(part) for part in parts)


def _dealt(pieces: Sequence[list[int]], count: int) -> list[list[int]]:
    """Pieces, more than there are groups, dealt to `count` groups one after the other."""
    return [[op for piece in pieces[first::count] for op in piece] for first in range(count)]


def _tile_pieces(problem: Problem, piece: Sequence[int]) -> list[list[int]]:
    """A piece cut where only small values (row vectors) pass: what tile-sized registers hold together stays
    together."""
    sizes = {
        value.src: max(value.registers, 1 if value.shared or value.tensor else 0) for value in problem.values
    }
    largest = max((sizes.get(problem.operations[i].id, 0) for i in piece), default=0)
    longest = max(op.duration for op in problem.operations)
    light = [i for i in piece if 16 * problem.operations[i].duration < longest]
    chosen = set(piece) - set(light)
    links = (
        (problem.index(edge.src), problem.index(edge.dst))
        for edge in problem.edges
        if 8 * sizes.get(edge.src, 0) >= largest
    )
    cores = components(sorted(chosen), ((a, b) for a, b in links if a in chosen and b in chosen))
    return _adopt(problem, sorted(sorted(core) for core in cores), light)


def _adopt(problem: Problem, cores: list[list[int]], light: Sequence[int]) -> list[list[int]]:
    """Every light operation (on row vectors: short beside the longest) joins the core that feeds it, or else
    that it feeds."""
    home = {op: c for c, core in enumerate(cores) for op in core}
    near: dict[int, tuple[list[int], list[int]]] = {op: ([], []) for op in light}
    for edge in problem.edges:
        a, b = problem.index(edge.src), problem.index(edge.dst)
        if b in near:
            near[b][0].append(a)
        if a in near:
            near[a][1].append(b)
    pending, left = list(light), len(light) + 1
    while len(pending) < left:
        left = len(pending)
        for op in pending:
            core = next((home[other] for side in near[op] for other in side if other in home), None)
            if core is not None:
                home[op] = core
        pending = [op for op in pending if op not in home]
    members: list[list[int]] = [[] for _ in cores]
    for op, core in sorted(home.items()):
        members[core].append(op)
    return members + [[op] for op in pending]


def _alike(problem: Problem, shares: list[list[int]]) -> list[list[int]]:
    """Pieces made of the same operations (the same work of several sub-tiles) joined, but for the largest
    kind."""
    kinds: dict[tuple[str, ...], list[list[int]]] = {}
    for share in shares:
        kinds.setdefault(tuple(sorted(problem.operations[i].name for i in share)), []).append(share)
    largest = max(kinds, key=lambda kind: len(kind), default=())
    joined: list[list[int]] = []
    for kind, members in kinds.items():
        joined += members if kind == largest else [[op for share in members for op in share]]
    return joined


def _small_joined(problem: Problem, shares: list[list[int]]) -> list[list[int]]:
    """All but the longest-running pieces in one group."""
    if len(shares) < 3:
        return shares
    time = [sum(problem.operations[i].issue for i in share) for share in shares]
    main = [share for share, t in zip(shares, time, strict=True) if 2 * t >= max(time)]
    return [*main, [op for share, t in zip(shares, time, strict=True) if 2 * t < max(time) for op in share]]


def _labels(problem: Problem, split: Iterable[Sequence[int]]) -> Labels:
    label = {op: g for g, ops in enumerate(part for part in split if part) for op in ops}
    return tuple(label[i] for i in range(len(problem.operations)))


def under(problem: Problem, labels: Labels) -> Problem:
    """The problem with this partition as part of its rules."""
    members: dict[int, list[str]] = {}
    for op, label in zip(problem.operations, labels, strict=True):
        members.setdefault(label, []).append(op.id)
    heads = [ops[0] for ops in members.values()]
    apart = [(a, b) for i, a in enumerate(heads) for b in heads[i + 1 :]]
    return replace(
        problem, together=(*problem.together, *map(tuple, members.values())), apart=(*problem.apart, *apart)
    )
