"""What each TTGIR operation is, computes and looks like in CUDA: one table, which every stage reads."""
