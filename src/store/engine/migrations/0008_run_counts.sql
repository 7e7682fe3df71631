-- additive
-- Runs of the agent server. null: it does not report them.
alter table metric_minutes
  add column runs_waiting integer,
  add column runs_running integer,
  add column runs_failed integer,
  add column runs_recovered integer;
