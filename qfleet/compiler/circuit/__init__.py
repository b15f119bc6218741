"""Circuits as factors: lowering, synthesis, expressions, observables, channels."""
