"""Timings, traffic, tables and figures."""
