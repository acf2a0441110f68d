"""Where actions run: `local`, as processes; `passes`, observed; `session`: of the current compile."""
