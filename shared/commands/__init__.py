"""The command line: arguments to calls, and what a person reads."""
