"""What labels say of models and of themselves: intervals, metrics, planning, doctor, answers."""
