"""Connections of workers: how they find, authenticate, watch and reach each other."""
