"""Control flow that a loop's dependence graph does not have, as what it has."""
