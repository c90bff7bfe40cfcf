"""Who sits in the other seats, and who beats whom."""
