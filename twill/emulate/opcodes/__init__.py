"""What instructions do: each module enters its rows into the table of `twill.emulate.decode`."""

from twill.emulate.opcodes import barrier, bulk, compare, control, convert, integer, matrix, memory, real, warpwide, wgmma

MODULES = (barrier, bulk, compare, control, convert, integer, matrix, memory, real, warpwide, wgmma)
