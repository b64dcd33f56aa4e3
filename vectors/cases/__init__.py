"""One module for each JSON file: ``make()`` returns what the file holds."""
