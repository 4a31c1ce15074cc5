"""The machine: GPU or interpreter, versions, and whether this Python will do."""
