"""What one can add to sweet_rl from outside, one file each."""
