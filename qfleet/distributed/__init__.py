"""State vectors that are sharded over processes. Imports no framework.

state_group      the processes that hold a state together
plan             which qubits are global, and when
stage_programs   the serialized programs of one process
"""
