"""TTGIR text to operations."""
