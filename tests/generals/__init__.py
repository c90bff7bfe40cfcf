"""An independent referee of Generals and the tests that hold the native engine to it."""
