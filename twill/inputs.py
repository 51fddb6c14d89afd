"""From user inputs to scheduling problems.

Takes `FILE.ttgir`, `FILE.py:function` or `FILE.graph.json` with a machine and what-if options (`Inputs`);
returns a `Case` for every loop to schedule. Raises `TwillError` where something cannot be read, costed or
found, before any search starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from twill import whatif
from twill.diagnostics import TwillError
from twill.extract.frontend.capture_file import is_capture
from twill.files.record import LARGEST
from twill.ir.graph import Graph
from twill.ir.loop import FEW, Loop, Module, shares
from twill.ir.machine import Machine
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options

if TYPE_CHECKING:
    from twill.extract.frontend.persistent import Order

LONGEST = 200
"""Bytes of a loop's name, from which names of files are made."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The kernel, the machine, and the what-if options."""

    spec: str
    arch: str | None = None
    machine: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    """Arguments and constexprs of a Python kernel."""
    tile: tuple[str, int] | None = None
    """A constexpr of a Python kernel that is a size of its tiles, and a value that is no power of two."""
    constants: tuple[tuple[str, object], ...] = ()
    """What a kernel given as text was compiled with, where that is known."""
    persistent: bool | None = False
    """Generate a persistent kernel: each thread block loops over programs of the grid. None: where that is
    predicted to be faster (`twill.generation.generate`)."""
    order: "Order" = "suited"
    """In which its thread blocks have the programs of the grid."""
    subtile: int | None = None
    """Independent sub-tiles that the rows of the kernel's tiles are divided into; None for what is best by
    the intervals (`twill.generation.choices.subtiles`), where a search decides, and whole tiles elsewhere."""
    warps: int | None = None
    """Warps that hold the kernel's tiles at least, a power of two: each thread holds fewer elements
    (`twill.generation.candidates` takes eight where four have too few registers). None: a warpgroup."""
    spills: int = 1
    """How many times the registers of a thread its tiles may take: the compiler spills what has no room
    (`twill.generation.candidates` takes more than one where loops have no schedule otherwise)."""
    late_loads: bool = False
    """Tiles that only code behind a loop reads are loaded behind it, where no register keeps them during the
    loop, but nothing hides their latency (`twill.generation.builds.retries` tries it where ptxas spills)."""
    own_descriptors: bool = False
    """The kernel makes the descriptors that the host would make: it takes addresses and numbers alone."""
    exact_layouts: tuple[str, ...] = ()
    """Architectures on which every tile is held exactly as TTGIR lays it out."""
    loops: tuple[str, ...] = ()
    """Names or suffixes of names; empty for every innermost loop with tensor core work."""
    switched_off: tuple[str, ...] = ()
    """Simplification rules not to use."""
    resolution: int | None = None
    """Normalize costs so that the distinct durations sum to at most this many time units. None for exact
    cycles."""
    groups: int | None = None
    registers: int | None = None
    shared: int | None = None
    tensor: int | None = None
    latencies: tuple[tuple[str, int], ...] = ()
    ahead: tuple[tuple[str, int], ...] = ()
    """How many iterations loads may run ahead, where shared memory is not to decide that."""
    pins: whatif.Pins | None = None
    cross_group: bool = True
    """Values computed in the loop may pass between warp groups."""
    polynomial_exp2: bool = False
    """A polynomial may compute some of the exponentials; the search finds how many."""
    rescale_threshold: float | None = None
    """Running maxima stay until they grow by more, so that what they have accumulated is seldom rescaled;
    None: they are as the kernel has them."""
    divide_waits: bool | None = None
    """Groups wait for accumulators between two slices of an elementwise operation; None: where a kernel is
    predicted to be faster so."""
    pairs: bool = False
    """MMAs are those of pairs of thread blocks, each of which loads half of B (machines with tensor
    memory)."""
    contention: bool = True
    """Cost operations under tensor core contention, where the machine file has numbers for it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One loop ready to be solved, and its origin. A graph file has neither module nor loop."""

    problem: Problem
    module: Module | None = None
    loop: Loop | None = None
    graph: Graph | None = None
    formulas: Mapping[str, str] = field(default_factory=dict[str, str])
    """The cost formula of each operation, by id."""
    machine: Machine | None = None
    """The machine that the costs are for; None for a graph file, which contains its costs."""
    others_ahead: Problem | None = None
    """The loop with another choice of the loads that run ahead, where memory does not let all of them, the
    user has not decided, and the warps that compute wait for loads."""
    divided: Problem | None = None
    """The loop with waits inside of elementwise operations, where `problem` has none and the user has not
    decided."""
    aligned: int = 0
    """Bytes of shared memory that the limits of a part of an SM leave for alignment and barriers
    (`generation.part_of_sm`)."""

    @property
    def most_trips(self) -> int | None:
        """How many iterations the loop has at most, where that is known."""
        return self.loop.most_trips if self.loop else None

    @property
    def overlaps(self) -> bool:
        """Whether an iteration may overlap another one."""
        return self.most_trips is None or self.most_trips > 1

    def searched(self, options: Options) -> Options:
        """The options of a search for the loop: it considers no more iterations in flight than there are."""
        if self.most_trips is None or self.most_trips >= FEW:
            return options
        most = min(max(1, self.most_trips), options.max_in_flight or FEW)
        return replace(options, max_in_flight=most, few=True)

    @property
    def name(self) -> str:
        """The name of the loop, such as `fa_fwd/for.0`: unique among the loops of one input."""
        return self.problem.name


def shares_of(found: Sequence[Case]) -> tuple[float, ...]:
    """How much the cycles of an iteration of each loop of a kernel count in the sum over all (`shares`)."""
    loops = [case.loop for case in found if case.loop]
    return shares(loops) if len(loops) == len(found) else (1.0,) * len(found)


def is_graph(spec: str) -> bool:
    """Whether inputs name a graph file, which has its machine, its costs and one loop; captures of launches
    are `.json` files too."""
    return spec.endswith(".json") and not is_capture(spec)


def cases(inputs: Inputs) -> tuple[Case, ...]:
    """The loops that the inputs name, in source order, with all what-if options applied."""
    _refuse_wild_numbers(inputs)
    found = (_from_graph(inputs),) if is_graph(inputs.spec) else _from_kernel(inputs)
    for case in found:
        if len(case.name.encode()) > LONGEST or not case.name.isprintable():
            raise TwillError(
                f"the name of the loop {case.name[:60]}... is too long for files",
                help=f"{LONGEST} bytes at most",
            )
    return tuple(_as_wanted(case, inputs) for case in found)


def _as_wanted(case: Case, inputs: Inputs) -> Case:
    """The loop with all what-if options applied."""
    problem = _changed(case.problem, inputs)
    divided = _changed(case.divided, inputs) if case.divided else None
    others = _changed(case.others_ahead, inputs) if case.others_ahead else None
    case = replace(case, others_ahead=others)
    if inputs.divide_waits:
        return replace(case, problem=divided or problem, divided=None)
    return replace(case, problem=problem, divided=None if inputs.divide_waits is False else divided)


def _refuse_wild_numbers(inputs: Inputs) -> None:
    """Raise TwillError for numbers that no machine has and solvers cannot represent."""
    limits = {
        name: getattr(inputs, name) for name in ("groups", "registers", "shared", "tensor", "resolution")
    }
    for name, number in (
        *limits.items(),
        *((f"the latency of {op}", latency) for op, latency in inputs.latencies),
        *((f"--ahead {op}", count) for op, count in inputs.ahead),
    ):
        if number is not None and not 0 <= number <= LARGEST:
            raise TwillError(f"{name} must be from 0 to {LARGEST}, not {number}")


def _changed(problem: Problem, inputs: Inputs) -> Problem:
    """Apply the what-if options that do not depend on the source of the costs. Normalization changes times,
    so pins come last."""
    if not inputs.cross_group:
        problem = whatif.without_cross_group(problem)
    if inputs.spills > 1:
        problem = whatif.spilling(problem, inputs.spills)
    if inputs.resolution is not None:
        from twill.costs.normalize import normalize

        if problem.implementations:
            raise TwillError(
                f"{problem.name} has {len(problem.implementations)} implementations, which cannot be rounded",
                help="leave --resolution out, or --polynomial-exp2",
            )

        problem = normalize(problem, inputs.resolution)
    return whatif.pinned(problem, inputs.pins) if inputs.pins else problem


# --- graph files ------------------------------------------------------------------------------------------


def _from_graph(inputs: Inputs) -> Case:
    from twill.files import load, read_graph

    if (
        inputs.settings
        or inputs.loops
        or inputs.switched_off
        or inputs.persistent
        or (inputs.subtile or 1) > 1
        or inputs.polynomial_exp2
        or inputs.divide_waits
        or inputs.rescale_threshold is not None
        or inputs.ahead
    ):
        raise TwillError(
            f"{inputs.spec} is a graph file: --set, --persistent, --subtile, --loop, --no-rule,"
            " --polynomial-exp2, --rescale-threshold, --divide-waits and --ahead do not apply to it",
            help="leave them out, or give the TTGIR or the Python kernel that the graph is of",
        )
    problem = whatif.limited(
        read_graph(load(inputs.spec), inputs.spec, inputs.machine or _default_name(inputs.arch)),
        groups=inputs.groups,
        registers=inputs.registers,
        shared=inputs.shared,
        tensor=inputs.tensor,
    )
    for pattern, latency in inputs.latencies:
        problem = whatif.with_latency(problem, pattern, latency)
    return Case(problem)


def _default_name(arch: str | None) -> str | None:
    from twill.costs.machine import default_machine

    return default_machine(arch).name if arch else None


# --- kernels ----------------------------------------------------------------------------------------------


def _from_kernel(inputs: Inputs) -> tuple[Case, ...]:
    module, machine, loops = chosen_loops(inputs)
    return tuple(_case(module, loop, machine, inputs) for loop in loops)


def chosen_loops(inputs: Inputs) -> tuple[Module, Machine, tuple[Loop, ...]]:
    """The module in the form that loops are scheduled in, the machine, and the loops that are chosen. Raises
    TwillError where there are none, or for what can not be read."""
    from twill.emit.ttgir import bare
    from twill.extract.dependence.chosen import chosen
    from twill.extract.reader.ttgir import read
    from twill.extract.rewrite.carried.lasting_maxima import lasting
    from twill.extract.rewrite.control.inlined_calls import inlined
    from twill.extract.rewrite.steps import rewritten
    from twill.extract.rewrite.subtile.rewriting import subtiled
    from twill.extract.validate import validate

    module, machine = origin(inputs)
    constants = module.constants
    if "twill.start" in module.text:
        module = read(bare(module.text), module.file)
    module = inlined(module)
    if inputs.persistent:
        from twill.extract.frontend.persistent import persistent
        from twill.extract.rewrite.control.early_return import structured

        module = persistent(structured(module), inputs.order)
    if inputs.own_descriptors:
        from twill.extract.frontend.descriptors import device_descriptors

        module = device_descriptors(module)
    whole, everywhere = module, machine.arch in inputs.exact_layouts
    count = inputs.subtile or 1
    written = partial(rewritten, everywhere=everywhere, warps=inputs.warps, late=inputs.late_loads)
    module = whole
    if inputs.rescale_threshold is not None:
        module = lasting(whole, inputs.rescale_threshold)
    module = replace(written(subtiled(module, count)), constants=constants)
    if count > 1 or inputs.rescale_threshold is not None:
        module = replace(module, undivided=written(whole))
    loops = chosen(module, inputs.loops)
    for function in {loop.function.name: loop.function for loop in loops}.values():
        validate(module, function)
    return module, machine, tuple(loops)


def origin(inputs: Inputs) -> tuple[Module, Machine]:
    """The module as written, and the machine that its costs are for."""
    from twill.costs.machine import load as machine_named
    from twill.extract.frontend.source import load
    from twill.extract.rewrite.parameter_names import named_as_in_source

    named = machine_named(inputs.machine) if inputs.machine else None
    arch = inputs.arch or (named.arch if named else None)
    module = named_as_in_source(load(inputs.spec, arch, dict(inputs.settings), inputs.tile))
    if inputs.constants:
        module = replace(module, constants=dict(inputs.constants))
    return module, named or _default_machine(arch, module)


def _default_machine(arch: str | None, module: Module) -> Machine:
    """The default machine of an architecture, by default the module's target."""
    from twill.costs.machine import default_machine

    arch = arch or module.target
    if not arch:
        raise TwillError(
            f"{module.file} names no target architecture",
            help="use --arch sm90, --arch sm100 or --machine NAME",
        )
    return default_machine(arch)


def _case(module: Module, loop: Loop, machine: Machine, inputs: Inputs) -> Case:
    from twill.costs.divided_waits import with_divided_waits
    from twill.costs.model import Overrides, costed, costed_with_formulas
    from twill.costs.other_loads import others_ahead
    from twill.costs.pairs import of_pairs
    from twill.extract.dependence.build import graph
    from twill.extract.dependence.simplify import ALL_RULES
    from twill.warp.dataflow import read
    from twill.warp.pairs import halved_loads

    unknown = sorted(set(inputs.switched_off) - set(ALL_RULES))
    if unknown:
        raise TwillError(f"there is no rule {unknown[0]!r}", help=f"the rules: {', '.join(ALL_RULES)}")
    dependences = graph(module, loop, tuple(rule for rule in ALL_RULES if rule not in _off(inputs, machine)))
    if inputs.pairs and machine.limits.tensor:
        dependences = of_pairs(dependences, halved_loads(read(module, loop.function)))
    overrides = Overrides(
        latency=_by_node(dependences, inputs.latencies),
        ahead=_by_node(dependences, inputs.ahead),
        groups=inputs.groups,
        registers=inputs.registers,
        shared=inputs.shared,
        tensor=inputs.tensor,
        polynomial=inputs.polynomial_exp2,
        contention=inputs.contention,
    )
    problem, formulas = costed_with_formulas(dependences, machine, overrides)
    fewer = () if "fused" in inputs.switched_off else _with_fewer_tiles(dependences)
    if fewer and not _constructible(problem):
        for smaller in fewer:
            other, counted = costed_with_formulas(smaller, machine, overrides)
            if _constructible(other):
                return Case(other, module, loop, smaller, counted, machine)
    decided = inputs.ahead or machine.limits.tensor  # there a warp that does nothing else issues MMAs
    ahead = dict[str, int]() if decided else others_ahead(problem, dependences)
    others = costed(dependences, machine, replace(overrides, ahead=ahead)) if ahead else None
    divided = with_divided_waits(problem, dependences) if not machine.limits.tensor else None
    return Case(problem, module, loop, dependences, formulas, machine, others, divided)


def _with_fewer_tiles(dependences: Graph) -> tuple[Graph, ...]:
    """The graph with operations merged that need fewer registers so, and with more of them merged."""
    from twill.extract.dependence.simplify import fused

    merged = (fused(dependences), fused(dependences, stores=True))
    return tuple(graph for graph in dict.fromkeys(merged) if graph != dependences)


def _off(inputs: Inputs, machine: Machine) -> tuple[str, ...]:
    """The rules that are not applied: those that the user switches off, and `compared` on Hopper, whose
    measured kernels have comparisons of their own (flex attention would take 1138 cycles there, not 1104)."""
    return inputs.switched_off if machine.limits.tensor else (*inputs.switched_off, "compared")


def _constructible(problem: Problem) -> bool:
    """Whether one iteration after the other, its operations in order or depth first, is a schedule."""
    from twill.modulo.constructive import rising
    from twill.modulo.start import MOST, start
    from twill.verify import check

    begin = start(problem)
    found = rising(problem, begin.top, begin.top, MOST)
    return not begin.infeasible and any(not check(problem, one) for one in found)


def cost_sources(case: Case) -> dict[str, str]:
    """The sources of each operation's costs in the machine file, by operation id; empty for a graph file."""
    from twill.costs.notes import sources_of

    return sources_of(case.graph, case.machine) if case.graph and case.machine else {}


def cost_notes(case: Case, result: Result) -> tuple[str, ...]:
    """What to know of the costs behind a result (`twill.costs.notes`); nothing of a graph file."""
    from twill.costs.notes import binding_estimates, estimated_capacity, estimates_of, grid_loads

    if case.graph is None or case.machine is None:
        return ()
    interval = result.solution.interval if result.solution else result.proved
    cycles = round(interval * case.problem.resolution.cycles_per_unit)
    estimates = estimates_of(case.graph, case.machine)
    binding = binding_estimates(case.problem, result.bounds, estimates)
    capacity = estimated_capacity(result.bounds, case.machine)
    return (*binding, *capacity, *grid_loads(case.graph, case.machine, cycles))


def _by_node(dependences: Graph, numbers: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What-ifs with a number for each operation that a pattern matches, by node id."""
    named = [(node.id, node.op) for node in dependences.nodes]
    return {
        op: number for pattern, number in numbers for op in whatif.matching(named, pattern, dependences.name)
    }
