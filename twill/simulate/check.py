"""A generated kernel, checked once before it is handed over: what it computes, and how its warps wait for
each other.

Takes a program with its loops; runs it on a few small problems and gives what was run. The problems follow
from the kernel alone: sizes with which its loops run 0 to 4 times, full and ragged, strides far enough apart.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, islice, product
from math import prod

from twill.diagnostics import TwillError
from twill.extract.frontend.persistent import GRID
from twill.extract.scalars import bounding, extents, masking, reaching, stepping
from twill.ir.checked import Checked, CheckedRun
from twill.ir.loop import Function, Op, Pointer, TensorDesc, Value
from twill.ir.program import Program
from twill.ir.statements import Compute, Pipelined, walk
from twill.ops.table import role
from twill.simulate.actions import two_ways
from twill.simulate.compare import (
    FLOAT,
    Compared,
    arguments,
    collide,
    compare,
    scalars,
    unstable,
    useful,
    wrong,
)
from twill.simulate.divisors import integers, with_programs, without_zeros
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.index_arrays import steered, work, writes
from twill.simulate.interpret import Meter
from twill.simulate.protocol import HazardError
from twill.simulate.races import races
from twill.simulate.shortened import shortened
from twill.simulate.trips import Trips, counts, scalar
from twill.simulate.unusual import grid_extents, launches, shows
from twill.warp.slot_tensors import bits

COUNTS = (0, 1, 2, 3, 4)
"""How often loops run, each time that they are entered."""
IN_ALL = 40
"""Iterations of one loop in a problem, at most, unless it has fewer in none."""
STATES = 20_000
"""Of the interleavings of one count, at most."""
FEW = 2_000
"""The same of a pair of thread blocks, which has more than can be explored."""
TWICE = 2
"""Iterations of loops around pipelined ones that run too often with every size."""
LARGEST = 2048
"""Of the sizes that are tried."""
EXTENTS = (512, 80)
"""What bounds something else than a loop: some whole tiles; less than one."""
ODD = 45
"""Less than a tile, of a bound without a known divisor: masks of neighbours, and of parts of a tile of 64,
then hold for some."""
PLACES = 9
"""Programs along each axis that are looked at until one writes something."""
FAR = (100, 37, 11)
"""A program along one axis with more work, where a kernel reads indices: in the first programs of a causal
sparse kernel nearly all keys are masked."""
PITCHES = (4112, 4208, 4336, 4400, 4432, 4528, 4624, 4688)
"""Strides: 16 times primes, so that rows of tiles that are stored never meet."""

PROGRAMS = 2
"""Of a grid, along x and along y."""
WIDER = (2**8, 2**16)
"""Programs along x where a loop over tiles runs too often, whatever the sizes, in one of two: kernels that
walk over the grid by themselves, of sizes that are constants. One is executed, whatever their number."""

KEPT = 4
"""Programs whose trials are kept, the last ones: values are checked with them, then the PTX."""

Grid = tuple[int, int, int]
GRIDS = ((2, 2, 1), (1, 2, 2), (2, 1, 2), (2, 1, 1), (1, 2, 1), (1, 1, 2))
"""Of kernels whose thread blocks walk over the grid."""

Report = Callable[[str], None]
"""Called with what is done next."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Arguments for one run."""

    numbers: Mapping[str, float]
    grid: Mapping[str, int]
    trips: tuple[int | None, ...]
    """Of each loop, in all; None where it follows from memory."""
    longest: tuple[int | None, ...]
    """The same of one time that it is entered."""

    @property
    def continued(self) -> bool:
        """A loop is entered more than once, for several iterations each time, and not too often."""
        pairs = zip(self.trips, self.longest, strict=True)
        return any(total and each and 1 < each < total <= IN_ALL for total, each in pairs)

    @property
    def shown(self) -> str:
        """The numbers, as messages name them."""
        return ", ".join(f"{name}={value:g}" for name, value in self.numbers.items()) or "no scalar arguments"


def check(program: Program, report: Report = lambda what: None) -> Checked:
    """Every interleaving for small trip counts, then values. Raises TwillError where the program is wrong.
    This is where other ways of executing a kernel belong: each gives the runs that it has compared."""
    states = 0
    for count in COUNTS:
        report(f"checking how the groups wait, {count} iterations")
        counts = same(count, around(program))
        states += explore(program, counts, FEW if program.pairs else STATES).states
        if two_ways(group.body for group in program.groups):
            states += explore(program, counts, STATES, second=True).states
        if program.clustered:  # and by adversaries; and blocks by themselves
            adversaries(program, counts)
            states += explore(replace(program, cluster=1, pairs=False), counts, STATES).states
        if program.tensor_memory:
            races(program, counts)
    runs = tuple(_runs(program, report))
    return Checked(COUNTS, states, runs)


def around(program: Program) -> int:
    """How often loops around pipelined loops run: so that each group has a second tile, where several are in
    flight, each buffer of an accumulator that alternates is used again, and one more."""
    tiles = max([program.tiles_in_flight, *(tile.buffers for tile in program.tensor_memory if tile.counter)])
    return 2 * tiles + 1 if tiles > 1 else 2


def _runs(program: Program, report: Report) -> Iterable[CheckedRun]:
    """Values of each trial, beside the TTGIR executed as it stands."""
    for trial in trials(program):
        report(f"checking values, {trial.shown}")
        try:
            trial, found = compared_trial(program, trial)
        except HazardError:
            raise
        except TwillError as problem:  # the simulator lacks an operation, or memory for such arguments
            yield CheckedRun("simulator", trial.shown, trial.trips, 0, 0.0, problem.message)
            continue
        _refuse(wrong(program.function, found), trial.shown)
        worst = max((one.error for one in found), default=0.0)
        yield CheckedRun(
            "simulator", trial.shown, trial.trips, sum(one.values for one in found), float(f"{worst:.0e}")
        )


def compared_trial(
    program: Program, trial: Trial, meter: Meter | None = None
) -> tuple[Trial, Sequence[Compared]]:
    """What one trial gives; where rounding decides that, one with fewer iterations. Raises TwillError, as
    TooLongError where the `meter` does."""
    found = _found(program, trial, meter)
    if wrong(program.function, found) and (shorter := comparable(program, trial)):
        return shorter.trial, _found(shorter.program, shorter.trial, meter)
    return trial, found


@dataclass(frozen=True, slots=True)
class Shorter:
    """A program that executes loops of constant trip counts less often, and a trial of it."""

    program: Program
    trial: Trial


def comparable(
    program: Program, trial: Trial, refused: Callable[[Sequence[Compared]], bool] | None = None
) -> Shorter | None:
    """Where rounding decides what a trial gives, as the TTGIR itself would be `refused` with its sums in
    another order: the program with as many iterations of its loops of constant trip counts as other loops
    are tried with (COUNTS). None where all can be compared, or no loop is such."""
    function = program.function
    fewer = shortened(function, max(COUNTS))
    if fewer is None or not unstable(
        function, trial.numbers, [trial.grid], refused or (lambda found: wrong(function, found) is not None)
    ):
        return None
    shorter = replace(program, function=fewer)
    return Shorter(shorter, _counted(shorter, trial.numbers, trial.grid))


def _found(program: Program, trial: Trial, meter: Meter | None = None) -> Sequence[Compared]:
    names = grid_arguments(program)

    def found(grid: Grid) -> Sequence[Compared]:
        numbers = {**trial.numbers, **dict(zip(names, grid, strict=bool(names)))}
        return compare(program, numbers, trial.grid, meter=meter)

    return on_a_grid_apart(
        program, trial, own_grid(program, trial), found, lambda found: wrong(program.function, found) is None
    )


def own_grid(program: Program, trial: Trial) -> Grid:
    """The grid that a kernel made persistent walks over; the first of GRIDS for another kernel."""
    names = grid_arguments(program)
    x, y, z = (int(trial.numbers[name]) for name in names) if names else GRIDS[0]
    return (x, y, z)


def on_a_grid_apart(
    program: Program,
    trial: Trial,
    first: Grid,
    run: Callable[[Grid], Sequence[Compared]],
    good: Callable[[Sequence[Compared]], bool],
) -> Sequence[Compared]:
    """What `run` finds on the grid `first`. Where that is not good, of a kernel made persistent whose
    programs write to the same places with these arguments, such as batches that overlap: what it finds on the
    first of GRIDS whose programs do not. Raises TwillError where those of all grids do."""
    found = run(first)
    if good(found) or not grid_arguments(program):
        return found
    grid = apart(program, trial, (first, *GRIDS))
    return found if grid == first else run(grid)


def apart(program: Program, trial: Trial, grids: Iterable[Grid]) -> Grid:
    """The first of some grids whose programs write to places of their own. Raises TwillError where there is
    none."""
    names = grid_arguments(program)
    for grid in grids:
        numbers = {**trial.numbers, **dict(zip(names, grid, strict=True))}
        if not collide(program, numbers, trial.grid, prod(grid)):
            return grid
    raise TwillError("programs of the grid write to the same places")


def grid_arguments(program: Program) -> tuple[str, ...]:
    """The extents of the grid of a kernel made persistent."""
    return grid_extents(program.function)


def _refuse(found: Compared | None, shown: str) -> None:
    if found is not None:
        raise TwillError(
            f"the generated kernel computes a wrong {found.argument}: relative error {found.error:.1e} with"
            f" {shown}",
            help=(
                "this is a defect in Twill: please report it with the TTGIR; --no-check writes the kernel"
                " nevertheless"
            ),
        )


# --- which problems ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Roles:
    """The scalar arguments of a kernel, by what they decide."""

    bounds: frozenset[int]
    limits: frozenset[int]
    masks: frozenset[int]
    """Of the limits, those that bound masks and of which no divisor is known."""
    steps: frozenset[int]
    kinds: Mapping[str, float]
    """By name, what they are unless told (`scalars`)."""
    around: frozenset[int] = frozenset()
    """Of the bounds, those that are as small as they can be: pipelined loops run too often otherwise."""

    @staticmethod
    def of(function: Function) -> "_Roles":
        return _Roles(
            bounding(function),
            extents(function),
            masking(function),
            stepping(function),
            scalars(function, {}),
        )


@dataclass(frozen=True, slots=True)
class _Tries:
    """What trials of a program are made with."""

    program: Program
    roles: _Roles
    programs: int
    """Of the grid, along x."""

    def trial(self, size: int, extent: int, pid: int = 0, odd: int | None = None) -> Trial | None:
        return _trial(self.program, self.roles, size, extent, pid, self.programs, odd)

    def by_size(self, sizes: Iterable[int]) -> dict[int, Trial]:
        return {size: trial for size in sizes if (trial := self.trial(size, EXTENTS[0]))}


@lru_cache(maxsize=KEPT)
def trials(program: Program) -> tuple[Trial, ...]:
    """One for each trip count that a loop can have, the sizes alternately the largest and the smallest with
    that count; a middle one where every size has it. Of a loop that runs oftener, or as often as memory
    says, the smallest size."""
    roles = _Roles.of(program.function)
    sizes = _sizes(program, roles)
    least = next(
        (trial for size in sizes if size and (trial := _trial(program, roles, size, EXTENTS[0]))), None
    )
    programs = walkable(program, least.numbers, least.grid)["grid.x"] if least else PROGRAMS
    tries = _Tries(program, roles, programs)
    tried = tries.by_size(sizes)
    if not _iterate(_with_few(tried)) and (around := _around(program)):
        tries = replace(tries, roles=replace(roles, around=around))
        tried = tries.by_size(sizes)
    few = _with_few(tried)
    candidates = few if _iterate(few) else list(tried.values())
    chosen = _by_counts(candidates)
    chosen = [*chosen, *_besides(program, tried, candidates)] if chosen else candidates[-1:]
    most = max(chosen, key=_iterations)
    placed = [*far(program, most), *(_placed(program, one) for one in [*chosen, *_ragged(tries, most)])]
    placed = [_with_two_tiles(program, trial) for trial in placed]
    if not any(shows(program.function, trial.numbers, trial.grid) for trial in placed):
        placed = [_unusual(program, roles, trial) for trial in placed]
    unique = {(str(trial.numbers), str(trial.grid)): trial for trial in placed}
    return tuple(unique.values())


def _with_few(tried: Mapping[int, Trial]) -> list[Trial]:
    """Those whose loops have few iterations in all."""
    return [one for one in tried.values() if all((count or 0) <= IN_ALL for count in one.trips)]


def _iterate(found: Sequence[Trial]) -> bool:
    """Whether a loop runs in any of them."""
    return any(map(any, (trial.trips for trial in found)))


def _by_counts(candidates: Sequence[Trial]) -> list[Trial]:
    """One for each loop and each of COUNTS that it has."""
    found = dict[tuple[int, int], list[Trial]]()
    for trial in candidates:
        for loop, count in enumerate(trial.longest):
            if count in COUNTS:
                found.setdefault((loop, count), []).append(trial)
    return [
        same_count[len(same_count) // 4 if len(same_count) == len(candidates) else 0 if count % 2 else -1]
        for (_, count), same_count in sorted(found.items())
    ]


def _besides(program: Program, tried: Mapping[int, Trial], candidates: Sequence[Trial]) -> Iterator[Trial]:
    """For each loop that always runs oftener the smallest size; one whose loops are entered again, and one
    that fills a slot a second time, if needed."""
    for loop in range(len(_loops(program))):
        if all(trial.longest[loop] not in COUNTS[1:] for trial in candidates):
            yield from islice((one for size, one in tried.items() if size and one.longest[loop] != 0), 1)
    yield from islice((trial for trial in candidates if trial.continued), 1)
    if least := _refilled_twice(program):
        deep = (one for one in tried.values() if any((count or 0) >= least for count in one.longest))
        yield from islice(deep, 1)


def _ragged(tries: _Tries, most: Trial) -> list[Trial]:
    """With the size of the one of most iterations: with less than a tile along the others, and the second
    program of the grid."""
    bounds = _names(tries.program, tries.roles.bounds)
    size = max((int(value) for name, value in most.numbers.items() if name in bounds), default=0)
    small = tries.trial(size, EXTENTS[1], odd=ODD) or tries.trial(size, EXTENTS[1])
    return [trial for trial in (small, tries.trial(size, EXTENTS[0], 1)) if trial]


def by_use(found: Sequence[Trial]) -> list[Trial]:
    """The most useful ones first; of those that are alike the first."""

    def order(trial: Trial) -> tuple[bool, int]:
        total = sum(count or 0 for count in trial.trips)
        return not trial.continued, total if trial.continued else -total

    return sorted(found, key=order)


def _around(program: Program) -> frozenset[int]:
    """The arguments that bound loops around pipelined ones, and not these."""
    function, inside = program.function, _loops(program)
    around = [op for op in function.walk() if role(op) == "for" and op not in inside]
    outer = (operand for op in around for operand in op.operands[:3])
    return reaching(function, outer) - reaching(
        function, (operand for op in inside for operand in op.operands[:3])
    )


def _least(attributes: Mapping[str, object]) -> int:
    """A number of iterations of a loop around others: two, or what is promised of it."""
    promised = attributes.get("tt.divisibility")
    return promised if isinstance(promised, int) else TWICE


def _refilled_twice(program: Program) -> int:
    """Iterations of a loop that computes numbers beside loads, for those beside the second refill of a slot
    to matter; 0 where none does (`warp.run_ahead`)."""
    every = (one for group in program.groups for one in walk(group.body))
    most = max((one.slots for one in every if isinstance(one, Compute)), default=0)
    return most + 2 if most else 0


def _iterations(trial: Trial) -> int:
    return sum(count or 0 for count in trial.trips)


def _placed(program: Program, trial: Trial) -> Trial:
    """The trial, in another program of the grid where this one writes nothing and that one does: many kernels
    return early by their number."""
    function = program.function
    values, memory = arguments(function, trial.numbers)
    if writes(function, values, memory, trial.grid):
        return trial
    for axis, place in product("yxz", range(1, PLACES)):
        grid = {
            **trial.grid,
            f"pid.{axis}": place,
            f"grid.{axis}": max(PLACES, trial.grid[f"grid.{axis}"]),
        }
        if writes(function, values, memory, grid):
            return _counted(program, trial.numbers, grid)
    return trial


def _unusual(program: Program, roles: _Roles, trial: Trial) -> Trial:
    """The trial with other numbers than sizes, or in a program counted from the last one, where no trial
    writes anything and that one does."""
    function = program.function
    for numbers, grid in launches(function, roles.limits - roles.bounds, trial.numbers, trial.grid):
        if shows(function, numbers, grid):
            return _counted(program, numbers, grid)
    return trial


def _with_two_tiles(program: Program, trial: Trial) -> Trial:
    """The trial; where the one pipelined loop runs too often, since sizes and the number of thread blocks
    that walk over tiles are constants, it in a program of the grid further on that has two tiles."""
    (total, longest) = (trial.trips[0], trial.longest[0]) if len(trial.trips) == 1 else (0, 0)
    if grid_arguments(program) or not total or not longest or total <= max(IN_ALL, 2 * longest):
        return trial
    for place in (part << power for power in range(16) for part in (2, 3)):
        grid = {**trial.grid, "pid.x": place, "grid.x": max(place + 1, trial.grid["grid.x"])}
        other = _counted(program, trial.numbers, grid)
        if other.longest == trial.longest and other.trips[0] == 2 * longest:
            return other
    return trial


def far(program: Program, trial: Trial) -> Iterator[Trial]:
    """The trial in a program further out in the grid that reads more, if any, of a kernel that reads indices
    and does not walk over the grid."""
    function = program.function
    if grid_arguments(program) or not steered(function):
        return
    values, memory = arguments(function, trial.numbers)
    contents = useful(function, trial.numbers, trial.grid)
    here = work(function, values, memory, trial.grid, contents)
    for axis, place in product("xyz", FAR if here else ()):
        grid = {**trial.grid, f"pid.{axis}": place, f"grid.{axis}": place + 1}
        there = work(function, values, memory, grid, contents)
        if here and there and there[0] >= here[0] and there[1] > here[1]:
            yield _counted(program, trial.numbers, grid)
            return


def _sizes(program: Program, roles: _Roles) -> list[int]:
    """Multiples of what is promised of the arguments that bound loops, and others where nothing is
    promised."""
    function = program.function
    pairs = [
        (arg, a)
        for arg, a in zip(function.args, function.arg_attributes, strict=True)
        if arg.id in roles.bounds and GRID not in a
    ]
    free = [arg for arg, attributes in pairs if not attributes.get("tt.divisibility")]
    steps = range(0, LARGEST + 1, 16)
    return (
        sorted({*steps, *((size + 7 for size in steps) if free and len(free) == len(pairs) else ())})
        if pairs
        else [EXTENTS[0]]
    )


def _trial(
    program: Program,
    roles: _Roles,
    size: int,
    extent: int,
    pid: int = 0,
    programs: int = PROGRAMS,
    odd: int | None = None,
) -> Trial | None:
    """One with these sizes, `odd` of bounds of masks; None where no launch can have them."""
    function = program.function
    numbers = dict[str, float]()
    pitches = cycle(PITCHES)
    for arg, attributes in zip(function.args, function.arg_attributes, strict=True):
        if not isinstance(arg.type, Pointer) and _name(arg) in roles.kinds:
            given = roles.kinds[_name(arg)]
            whole = given != FLOAT and GRID not in attributes
            numbers[_name(arg)] = (
                given
                if not whole
                else _least(attributes)
                if arg.id in roles.around
                else max(size, arg.id in roles.steps)
                if arg.id in roles.bounds
                else odd
                if odd and arg.id in roles.masks
                else extent
                if arg.id in roles.limits
                else next(pitches)
            )
    grid = {"pid.x": pid, "pid.y": pid, "pid.z": 0, "grid.x": programs, "grid.y": PROGRAMS, "grid.z": 1}
    least = {**grid, "grid.x": pid + 1, "grid.y": pid + 1}  # as the PTX is executed
    numbers = without_zeros(function, numbers, (grid, least), roles.limits - roles.bounds)
    grid = with_programs(function, numbers, grid)
    return _counted(program, numbers, grid) if _described(function, numbers, grid) else None


def walkable(program: Program, numbers: Mapping[str, float], grid: Mapping[str, int]) -> Mapping[str, int]:
    """The grid, or the first with so many more programs (WIDER) that the loops around pipelined ones run a
    few times; as it is where their number does not matter."""
    inside = _loops(program)
    around = [
        op
        for op in program.function.walk()
        if role(op) == "for" and any(one is loop for one in op.inner() for loop in inside)
    ]
    for programs in (grid["grid.x"], *WIDER):
        wide = {**grid, "grid.x": programs}
        found = [_count(program, op, numbers, wide) for op in around]
        if all(one is None or one.total <= IN_ALL for one in found):
            return wide
    return grid


def _described(function: Function, numbers: Mapping[str, float], grid: Mapping[str, int]) -> bool:
    """Whether tensor maps can have the strides of all descriptors: 16 bytes or a multiple (CUDA driver API,
    cuTensorMapEncodeTiled). A launch with others does not exist, such as one of 4-bit floats, two in a byte,
    in rows of 24."""
    values = integers(function, numbers)
    for op in (one for one in function.walk() if role(one) == "descriptor"):
        kind, count = op.result.type, (len(op.operands) - 1) // 2
        size = bits(kind.dtype) // 8 if isinstance(kind, TensorDesc) else 0
        strides = (scalar(function, one, values, grid) for one in op.operands[1 + count : -1])
        if any(stride is not None and stride * size % 16 for stride in strides):
            return False
    return True


def _loops(program: Program) -> tuple[Op, ...]:
    indices = {
        statement.op
        for group in program.groups
        for statement in walk(group.body)
        if isinstance(statement, Pipelined)
    }
    return tuple(program.op(index) for index in sorted(indices))


def _counted(program: Program, numbers: Mapping[str, float], grid: Mapping[str, int]) -> Trial:
    """A trial with the trip counts of the loops."""
    found = [_count(program, op, numbers, grid) for op in _loops(program)]
    total = tuple(one.total if one else None for one in found)
    return Trial(numbers, grid, total, tuple(one.longest if one else None for one in found))


def _count(program: Program, loop: Op, numbers: Mapping[str, float], grid: Mapping[str, int]) -> Trips | None:
    function = program.function
    try:
        return counts(function, loop, integers(function, numbers), grid)
    except (TwillError, ZeroDivisionError, KeyError):
        return None


def _names(program: Program, ids: frozenset[int]) -> frozenset[str]:
    return frozenset(_name(arg) for arg in program.function.args if arg.id in ids)


def _name(value: Value) -> str:
    return value.name.lstrip("%")
