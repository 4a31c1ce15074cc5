"""From failed cases to their cause."""
