"""Generation of kernels: the forms that a kernel may have, the fastest that is right, built without spills.

In the order of the stages: `given` and `refusals` come before a search, `loop_nest` schedules and lowers the
loops of one form, `attempts`, `subtiles`, `persistence` and `update_groups` say which forms there are,
`candidates` orders them by predicted time (`kept_searches` has what was searched before), `generate` takes
the first that is right, `built` the first that nvcc builds without spills (`checked_build` checks a kernel
meanwhile), `export` writes it for other compilers.
"""
