"""What the next micro-batch reads, when it begins, and a preview of a finite input."""
