"""The products of the pipeline, in its order: loop, graph, machine, problem, schedule.

Frozen dataclasses only; nothing here imports a stage.
"""
