"""Tests of what makes the packages."""
