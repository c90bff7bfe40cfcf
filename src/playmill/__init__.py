"""Playmill turns the rules of a turn-based game into a strong agent."""

__version__ = "0.1.0"
