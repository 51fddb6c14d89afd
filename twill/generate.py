"""From user inputs to a kernel: schedule the loops, lower them to warp programs, time these on the CPU, and
generate CUDA C++.

`generate` takes `Inputs`; `files` returns the contents of the output files. Loops with a given schedule are
not solved again. Raises TwillError, with the source line, for bad input, for a loop without a schedule, and
for operations that cannot be lowered or generated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from twill.attempts import Attempt, fastest
from twill.diagnostics import TwillError
from twill.inputs import Case, Inputs, cases, origin
from twill.ir.checked import Checked
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Options, Progress
from twill.subtiles import COUNT, better, divided, matching, note
from twill.warp.plan import Draft
from twill.warp.plan import Options as Lowering
from twill.warp.tasks import Scheduled

ProgressCallback = Callable[[str, Progress], None]
"""Called with each event of a search and the name of its loop."""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """Options of `generate`."""

    time_limit: float = 60.0
    """Seconds for scheduling each loop."""
    schedules: tuple[str, ...] = ()
    """Schedule files (`twill.schedule/1`) to use instead of a search."""
    lowering: Lowering = field(default_factory=Lowering)
    check: bool = True
    """Check the kernel once before it is handed over (`twill.simulate.check`)."""
    execute: bool = False
    """Where it is checked, also execute the PTX that nvcc makes of it (`twill.emulate.check`)."""
    dump: bool = False
    """Keep the draft after each pass of lowering."""


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """The warp programs of a kernel, with the schedules that they come from."""

    program: Program
    loops: tuple[Scheduled, ...]
    results: Mapping[str, Result]
    """The schedules with their evidence, by the paths of the loops."""
    cuda: str
    """The source, which `twill simulate` makes too: it refuses what `twill codegen` refuses."""
    dumps: Mapping[str, str] = field(default_factory=dict[str, str])
    """By file name: the draft after each pass of lowering, where `GenerateOptions.dump` says so."""
    cases: tuple[Case, ...] = ()
    """The loops with their costs, in the order of `loops`."""
    checked: Checked | None = None
    """What was run to check it; None where nothing was."""
    plain: "Generated | None" = None
    """The kernel as it is written, where this one was made persistent because that is predicted to be
    faster."""
    subtile: int = 1
    """Sub-tiles that its rows are divided into."""
    whole: "Generated | None" = None
    """The kernel with whole tiles, where this one's were divided because its loops are faster so."""


def generate(
    inputs: Inputs,
    options: GenerateOptions | None = None,
    on_progress: ProgressCallback = lambda name, event: None,
) -> Generated:
    """Schedule the loops, lower them to warp programs, print these and check them.

    Where `inputs.subtile` is None, rows are divided into sub-tiles where the loops then take fewer cycles.
    With `inputs.persistent` None the kernel is made persistent where that is predicted to be faster, and
    neither schedules nor the number of tiles in flight are given.
    """
    options = options or GenerateOptions()
    if inputs.subtile is None and options.schedules:
        inputs = replace(inputs, subtile=matching(inputs, _kept(options.schedules)))
    made = _divided_if_faster(replace(inputs, persistent=bool(inputs.persistent)), options, on_progress)
    if inputs.persistent is None:
        made = _persistent_if_faster(inputs, options, made, on_progress)
    return _with_checks(made, options, on_progress)


def _divided_if_faster(inputs: Inputs, options: GenerateOptions, on_progress: ProgressCallback) -> Generated:
    """The kernel with whole tiles, or with sub-tiles where its loops are faster so."""
    try:
        whole = _lowered(replace(inputs, subtile=inputs.subtile or 1), options, on_progress)
    except TwillError:
        if inputs.subtile is not None or inputs.pins is not None:
            raise
        made = _with_sub_tiles(inputs, options, inf, on_progress)
        if made is None:
            raise
        return made
    if not divided(inputs, whole.cases, list(whole.results.values())):
        return whole
    made = _with_sub_tiles(inputs, options, _pace(whole), on_progress)
    return replace(made, whole=whole) if made else whole


def _with_sub_tiles(
    inputs: Inputs, options: GenerateOptions, before: float, on_progress: ProgressCallback
) -> Generated | None:
    """The kernel with sub-tiles; None where its loops are not faster than whole tiles, which take `before`
    cycles."""
    try:
        made = _lowered(replace(inputs, subtile=COUNT), options, on_progress)
    except TwillError:
        return None
    if not better(_pace(made), before):
        return None
    said = note(_pace(made), before)
    _notes(made.program, "sub-tiles", on_progress)(said)
    return _noted(made, said)


def _lowered(
    inputs: Inputs,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    known: Sequence[Result] = (),
) -> Generated:
    """The kernel before it is checked. A problem that is alike one of those in `known` is not solved
    again."""
    from twill.targets import EXACT_LAYOUTS, target
    from twill.warp.validate import validate

    kept = _kept(options.schedules)
    in_order = inputs.in_order or options.lowering.pairs or options.lowering.dynamic
    found = cases(replace(inputs, in_order=in_order, own_descriptors=True, exact_layouts=EXACT_LAYOUTS))
    _refuse_foreign(kept, [case.problem.name for case in found])

    def attempt(tried: Sequence[Case]) -> Attempt:
        return _attempt(tried, options, kept, known, on_progress)

    one = attempt(found) if kept else fastest(found, attempt)
    validate(one.program, one.loops[0].machine.limits)
    cuda = target(one.loops[0].machine.arch).source(one.program)
    subtile = inputs.subtile or 1
    return Generated(one.program, one.loops, one.results, cuda, one.dumps, one.cases, subtile=subtile)


def _attempt(
    found: Sequence[Case],
    options: GenerateOptions,
    kept: Mapping[str, Result],
    known: Sequence[Result],
    on_progress: ProgressCallback,
) -> Attempt:
    """Raises TwillError where a loop has no schedule or an operation cannot be lowered."""
    from twill.loop_nest import program

    results = dict[str, Result]()

    def solve(problem: Problem) -> Result:
        results[problem.name] = (
            _fitting(kept[problem.name], problem)
            if problem.name in kept
            else next((_renamed(one, problem) for one in known if _alike(one.problem, problem)), None)
            or _solved(problem, options, on_progress)
        )
        return results[problem.name]

    dumps = dict[str, str]()

    def observe(name: str, draft: Draft) -> None:
        from twill.warp.dump import dumped

        if options.dump:
            dumps[f"{len(dumps):02}-{name}.txt"] = dumped(draft)

    made, loops = program(found, solve, options.lowering, observe)
    return Attempt(tuple(found), made, loops, results, dumps)


def _alike(one: Problem, other: Problem) -> bool:
    """Whether two problems are the same but for names and places in the source."""
    return _nowhere(one) == _nowhere(other)


def _nowhere(problem: Problem) -> Problem:
    operations = tuple(replace(op, location=None) for op in problem.operations)
    return replace(problem, name="", source=None, operations=operations)


def _renamed(result: Result, problem: Problem) -> Result:
    """The result as that of a problem that is alike."""
    return replace(result, problem=problem)


def _with_checks(made: Generated, options: GenerateOptions, on_progress: ProgressCallback) -> Generated:
    """Raises TwillError where the kernel is wrong. One that was made persistent, or divided into sub-tiles,
    is given up then."""
    try:
        checked = _checked(made.program, on_progress) if options.check else None
        if checked and options.execute:
            checked = _executed(checked, made.program, made.loops, made.cuda, on_progress)
    except TwillError as wrong:
        other = made.plain or made.whole
        if other is None:
            raise
        what = "made persistent" if made.plain else "divided into sub-tiles"
        return _noted(_with_checks(other, options, on_progress), f"not {what}: {wrong.message}")
    return replace(made, checked=checked)


def _persistent_if_faster(
    inputs: Inputs, options: GenerateOptions, plain: Generated, on_progress: ProgressCallback
) -> Generated:
    """The kernel that is not persistent (`plain`), or a persistent one that is predicted to be faster."""
    from twill.persistence import faster, open_to_it

    given = bool(options.schedules) or options.lowering.tiles is not None
    if given or not open_to_it(plain.program, plain.loops):
        return plain
    try:
        again = replace(inputs, persistent=True, subtile=plain.subtile)
        other = _lowered(again, options, on_progress, tuple(plain.results.values()))
    except TwillError:
        return plain
    why = faster((plain.program, plain.loops), (other.program, other.loops))
    return replace(_noted(other, why), plain=plain) if why else plain


def _checked(made: Program, on_progress: ProgressCallback) -> Checked:
    """Raises TwillError where the program is wrong."""
    from twill.simulate.check import check

    return check(made, _notes(made, "simulator", on_progress))


def _executed(
    checked: Checked, made: Program, loops: Sequence[Scheduled], cuda: str, on_progress: ProgressCallback
) -> Checked:
    """With a run of the PTX. Raises TwillError where that is wrong."""
    from twill.emulate.check import check

    run = check(made, loops, cuda, _notes(made, "emulator", on_progress))
    return replace(checked, runs=(*checked.runs, run))


def _notes(made: Program, by: str, on_progress: ProgressCallback) -> Callable[[str], None]:
    """What a check reports, as progress of the kernel."""
    began = monotonic()
    return lambda what: on_progress(made.function.name, Progress(monotonic() - began, by, 0, "note", what))


def built(
    inputs: Inputs,
    options: GenerateOptions | None = None,
    on_progress: ProgressCallback = lambda name, event: None,
) -> Path:
    """The folder of the generated and built kernel, in the user's cache; built only if it is not there
    yet."""
    from twill.launch.build import cached

    options = options or GenerateOptions()
    options = replace(options, execute=options.check)
    module, machine = origin(inputs)
    text = module.text
    resolved = (
        inputs
        if module.file == inputs.spec
        else replace(inputs, spec=text, settings=(), constants=tuple(module.constants.items()))
    )
    kept = [Path(path).read_text() for path in options.schedules]
    key = f"{text}{replace(resolved, spec='')}{options}{machine}{kept}"
    made = list[Generated]()

    def make() -> Mapping[str, str]:
        made.append(generate(resolved, options, on_progress))
        return _texts(made[0])

    def again(said: tuple[str, ...]) -> Mapping[str, str] | None:
        other = without_warnings(resolved, options, made[0], said, on_progress)
        return _texts(other) if other else None

    return cached(key, make, again)


def _texts(made: Generated) -> Mapping[str, str]:
    """The output files, by name."""
    return {name: make() for name, make in files(made).items()}


def without_warnings(
    inputs: Inputs,
    options: GenerateOptions,
    made: Generated,
    said: Sequence[str],
    on_progress: ProgressCallback = lambda name, event: None,
) -> Generated | None:
    """Another kernel where ptxas spilled registers or serialized MMAs (`said`): with sub-tiles, where their
    loops are as fast as scheduled, or else scheduled for fewer registers. None where neither helps."""
    if inputs.subtile is None and not options.schedules and made.subtile == 1 and said:
        try:
            other = generate(replace(inputs, subtile=COUNT), _unchecked(options), on_progress)
            if _pace(other) <= _pace(made) and not _said(other):
                why = f"rows are divided into {COUNT} sub-tiles: otherwise {said[0].split(':')[0]}"
                return _noted(_with_checks(other, options, on_progress), why)
        except TwillError:
            pass
    return with_fewer_registers(replace(inputs, subtile=made.subtile), options, made, said, on_progress)


FEWER_BLOCKS = 2
"""How many numbers of thread blocks on an SM are tried, where ptxas spills or serializes."""
FEWER = (0, 16, 32)
"""Registers below the first number that is tried where ptxas spills or serializes, by attempt."""
SLOWER = 1.5
"""How many times as long the loops of a kernel without spills may take, as simulated: beyond that, spilling
is taken to be better (estimate)."""


def with_fewer_registers(
    inputs: Inputs,
    options: GenerateOptions,
    made: Generated,
    said: Sequence[str],
    on_progress: ProgressCallback = lambda name, event: None,
) -> Generated | None:
    """The kernel scheduled for fewer registers, where ptxas spilled registers or serialized MMAs (`said`);
    its notes say so. One that was made persistent is given up where it is then predicted to be slower than
    as it is written. None where the user has fixed registers or schedules, or no such kernel is built without
    these warnings."""
    if options.schedules or inputs.registers is not None or not said:
        return None
    what, plain = said[0].split(":")[0], made.plain
    if found := _with_fewer_blocks(inputs, options, made, what, on_progress):
        return found
    persistent = plain is not None or bool(inputs.persistent)
    slowest = _pace(plain) if plain else SLOWER * _pace(made)
    scheduled = max(group.registers for one in made.loops for group in one.solution.groups)
    for fewer in FEWER:
        registers = (scheduled - 1) // 8 * 8 - fewer
        _notes(made.program, "ptxas", on_progress)(f"{what}; trying {registers} registers per thread")
        try:
            wanted = replace(inputs, registers=registers, persistent=persistent)
            other = generate(wanted, _unchecked(options), on_progress)
            if _pace(other) <= slowest and not _said(other):
                why = f"scheduled for {registers} registers per thread: otherwise {what}"
                return _noted(_with_checks(other, options, on_progress), why)
        except TwillError:
            continue
    return _as_written(inputs, options, plain, what, on_progress) if plain else None


def _with_fewer_blocks(
    inputs: Inputs, options: GenerateOptions, made: Generated, what: str, on_progress: ProgressCallback
) -> Generated | None:
    """The same schedules with fewer thread blocks on an SM, each of which has more registers then; None where
    there is one, or ptxas still warns."""
    most = made.program.resident_blocks
    for blocks in range(most - 1, max(0, most - 1 - FEWER_BLOCKS), -1):
        _notes(made.program, "ptxas", on_progress)(f"{what}; trying {blocks} thread blocks on an SM")
        try:
            lowering = replace(options.lowering, most_blocks=blocks)
            other = generate(inputs, replace(_unchecked(options), lowering=lowering), on_progress)
            if not _said(other):
                why = f"{blocks} thread blocks on an SM at most: otherwise {what}"
                return _noted(_with_checks(other, options, on_progress), why)
        except TwillError:
            continue
    return None


def _unchecked(options: GenerateOptions) -> GenerateOptions:
    """For kernels of which most are not taken: the one that is taken is checked then."""
    return replace(options, check=False, execute=False)


def _as_written(
    inputs: Inputs, options: GenerateOptions, plain: Generated, what: str, on_progress: ProgressCallback
) -> Generated | None:
    """Instead of a persistent kernel, of which ptxas said `what`: the plain one, if need be for fewer
    registers."""
    try:
        plain, said = _with_checks(plain, options, on_progress), _said(plain)
    except TwillError:
        return None
    inputs = replace(inputs, persistent=False)
    found = with_fewer_registers(inputs, options, plain, said, on_progress) if said else plain
    return _noted(found, f"not made persistent: {what}") if found else None


def _noted(made: Generated, why: str) -> Generated:
    """The kernel with a note."""
    program = replace(made.program, notes=(*made.program.notes, why))
    return replace(made, program=program, cuda=_printed(program, made.loops))


def _printed(program: Program, loops: Sequence[Scheduled]) -> str:
    from twill.targets import target

    return target(loops[0].machine.arch).source(program)


def _pace(made: Generated) -> float:
    """Simulated cycles of an iteration of each loop, together."""
    from twill.simulate.predict import predict

    return sum(loop.interval for loop in predict(made.program, made.loops).loops.values())


def _said(made: Generated) -> tuple[str, ...]:
    """What ptxas warns of."""
    from twill.emit.files import write
    from twill.launch.build import build

    with TemporaryDirectory() as folder:
        for name, text in _texts(made).items():
            write(Path(folder) / name, text)
        return build(Path(folder))


def _solved(problem: Problem, options: GenerateOptions, on_progress: ProgressCallback) -> Result:
    """Of the implementation that the problem has: which one is best follows from the programs."""
    from twill.pipeline import among_implementations, solve

    found = solve(
        replace(problem, implementations=()),
        Options(time_limit=options.time_limit, explain=False),
        lambda event: on_progress(problem.name, event),
    )
    return among_implementations(found, problem) if problem.implementations else found


def _kept(paths: Iterable[str]) -> dict[str, Result]:
    """The given schedules, by loop name."""
    from twill.files import load, read_schedule

    found = dict[str, Result]()
    for path in paths:
        result = read_schedule(load(path), path).result
        if result.problem.name in found:
            raise TwillError(f"{path} is a second schedule for {result.problem.name}")
        found[result.problem.name] = result
    return found


def _refuse_foreign(kept: Mapping[str, Result], loops: Sequence[str]) -> None:
    """Schedules of loops that the kernel does not have."""
    for name in kept:
        if name not in loops:
            raise TwillError(
                f"the given schedule is for {name}, and the kernel has {', '.join(loops)}",
                help="leave that --schedule out",
            )


def _fitting(result: Result, problem: Problem) -> Result:
    """A given schedule, if it keeps all rules and has the same operations and dependences; its costs may
    differ."""
    from twill.verify import check_result

    same = [op.id for op in result.problem.operations] == [op.id for op in problem.operations]
    same = same and {(e.src, e.dst, e.distance) for e in result.problem.edges} == {
        (e.src, e.dst, e.distance) for e in problem.edges
    }
    if not same:
        raise TwillError(
            f"the given schedule for {problem.name} belongs to another loop: its operations or dependences"
            " differ"
        )
    broken = check_result(result)
    if broken:
        raise TwillError(f"the given schedule for {problem.name} breaks a rule: {broken[0]}")
    return result


def files(made: Generated) -> dict[str, Callable[[], str]]:
    """The output files of a kernel, by name: CUDA source, launch manifest, warp programs, simulated timeline,
    TTGIR, schedules."""
    from twill.files import write_schedule
    from twill.launch.build import MANIFEST, SOURCE
    from twill.launch.manifest import manifest, write
    from twill.simulate.predict import predict
    from twill.simulate.report import trace
    from twill.warp.listing import text

    predicted = predict(made.program, made.loops)
    cycles = {path: round(found.interval, 1) for path, found in predicted.loops.items()}
    described = write(manifest(made.program, made.loops, cycles, made.checked))
    return {
        SOURCE: lambda: made.cuda,
        MANIFEST: lambda: described,
        "kernel.ttgir": lambda: made.program.module.text,
        "warps.txt": lambda: text(made.program),
        "trace.json": lambda: trace(predicted.run, predicted.units),
        **{
            f"{path.replace('/', '.')}.schedule.json": partial(write_schedule, result)
            for path, result in made.results.items()
        },
    }
