"""Groups of settings: one immutable model per concern, each usable without the others."""
