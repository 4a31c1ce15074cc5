"""What is known and handed on, typed: one definition for each fact, and its way to JSON and back.

Nothing in this room computes anything, and nothing in it imports torch.
"""
