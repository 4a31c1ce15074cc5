"""The course: its lessons and scripts, a script's text, skeletons, a learner's progress."""
