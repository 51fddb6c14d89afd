"""PTX text, read into frozen instructions. `parser.parse` is the entrance."""
