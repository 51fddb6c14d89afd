"""MMAs, their operands and accumulators."""
