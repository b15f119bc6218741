"""`make search`: circuits for a Hamiltonian, found with several seeds, as files and a report."""
