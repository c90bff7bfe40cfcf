"""An independent referee of Skull King and the tests that hold the native engine to it."""
