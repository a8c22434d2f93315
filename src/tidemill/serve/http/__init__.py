"""The HTTP server: metrics, health, a JSON API, live subscriptions and the console."""
