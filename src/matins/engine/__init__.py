"""Pure decisions: functions of their arguments, including `now`."""
