"""Sites: what leaves for other sites, what is read from them, and the conversations with them."""
