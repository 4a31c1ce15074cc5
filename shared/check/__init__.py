"""The self-check: its stages, the process in which a learner's code runs, and what it reports."""
