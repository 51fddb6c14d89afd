"""`python -m tests.mutants [NAME...]`: applies each deliberate defect to a copy of the package and reports
which judge finds it."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.run import Outcome, outcome
from tests.mutants.table import MUTANTS

PROCESSES = 2


def main(names: list[str]) -> int:
    chosen = [one for one in MUTANTS if not names or one.name in names]
    outcomes = list[Outcome]()
    with ThreadPoolExecutor(PROCESSES) as pool:
        for one in pool.map(outcome, chosen):
            outcomes.append(one)
            print(
                f"{one.mutant.name:28} {one.judge or 'SURVIVED':18}"
                f" {one.what.splitlines()[0][:110] if one.what else ''}",
                flush=True,
            )
    for judge, number in sorted(Counter(one.judge or "survived" for one in outcomes).items()):
        print(f"{number:4} {judge}")
    survivors = [one.mutant for one in outcomes if not one.judge]
    for one in survivors:
        print(f"survivor {one.name}: {one.breaks}: {one.survives or 'NOT EXPLAINED'}")
    return any(not one.survives for one in survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
