"""Messages of the batch game service: `batch.proto`, and the code `make proto` makes from it."""
