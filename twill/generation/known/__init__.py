"""What is known before a search: schedules that are given, and results that were kept."""
