"""Rewrites of a module into the form that scheduling and lowering work on; each gives TTGIR again."""
