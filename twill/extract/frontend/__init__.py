"""What a user names, to a `Module`: files, dumps, Python kernels through Triton."""
