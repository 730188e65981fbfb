"""One honest tenant beside five hostile ones: what the attacks of a day cost it in ten minutes."""
