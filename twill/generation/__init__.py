"""Generation of kernels: the forms that a kernel may have, the fastest that is right, built without spills.

In the order of the stages: `given` and `refusals` come before a search (`searches`, and `kept_searches` has
what was searched before), `loop_nest` schedules and lowers the loops, `attempts` takes the schedules that are
fastest, `one_form` adds what `choices` has for their loads, MMAs and stores, `candidates` orders the forms of
a kernel by predicted time, `generate` takes the first that is right, `built` the first that nvcc builds
without spills (`checked_build` checks a kernel meanwhile), `export` writes it for other compilers.
"""
