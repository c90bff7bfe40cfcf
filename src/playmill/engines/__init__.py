"""Somebody else's rules, in processes of their own."""
