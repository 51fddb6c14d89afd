"""What instructions do: each module enters its rows into the table of `twill.emulate.decode`."""

from twill.emulate.opcodes import (
    atomic,
    barrier,
    bulk,
    compare,
    control,
    convert,
    copies,
    integer,
    matrix,
    memory,
    real,
    scheduling,
    tcgen05,
    tensor,
    warpwide,
    wgmma,
)

MODULES = (
    atomic,
    barrier,
    bulk,
    compare,
    control,
    convert,
    copies,
    integer,
    matrix,
    memory,
    real,
    scheduling,
    tcgen05,
    tensor,
    warpwide,
    wgmma,
)
