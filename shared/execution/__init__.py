"""One call of a function under test: its inputs, its memory, its accesses, how it compares."""
