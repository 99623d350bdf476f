"""What a run is worth, and which of two is better: files of episodes in, numbers, reports and a page out.

Begin with `report.py` (one run), then `comparison.py` (runs compared task by task). `episodes.py` reads what numbers
need, `page.py` shows them. Nothing is played or graded here.
"""
