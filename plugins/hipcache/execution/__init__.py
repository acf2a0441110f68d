"""One command. Its planner (`planner`) makes the graph: `object` and `source`, `assembler`. Where its actions run
(`world`): `local`, as processes; `passes`, observed; `session`: of the current compile."""
