"""Pure decisions: functions of their arguments, `now` among them."""
