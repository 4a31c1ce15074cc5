"""What the lessons have in common: the self-check, the measurements and the instructor's tools."""
