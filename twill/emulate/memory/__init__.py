"""Memory of the machine: global allocations, shared memory with its history, and the clocks that order
accesses."""
