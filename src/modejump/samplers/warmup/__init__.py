"""What happens before chains count: searches, the library, and what is learnt about the moves."""
