"""One page, complete in itself, of what runs and reproduced tables have found; `bin/report` is the program."""
