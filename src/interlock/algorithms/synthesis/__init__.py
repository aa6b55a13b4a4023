"""Parts of the synthesizers `tacos` and `guided`: arcs, chunks, trees, paths, rounds, symmetry."""
