"""Generated kernels on a GPU: values, time against peers, cycles."""
