"""Generated kernels on a GPU: values, time beside peers, cycles."""
