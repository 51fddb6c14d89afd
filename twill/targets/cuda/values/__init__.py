"""What is computed: scalars, elements of tiles, reductions and scans."""
