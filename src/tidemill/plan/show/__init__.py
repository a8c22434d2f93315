"""The plan printer: text, JSON and Mermaid."""
