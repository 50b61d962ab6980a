"""Exercises for a course: what a lab asks, and what a student's sheet is worth."""
