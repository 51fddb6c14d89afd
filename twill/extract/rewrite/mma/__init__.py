"""Operands and accumulators in the forms that tensor cores take."""
