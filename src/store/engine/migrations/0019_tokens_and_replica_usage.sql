-- additive
-- Tokens of the models that an agent called. null: its server does not report them.
-- CPU and memory by replica, where several run. null: one replica, which has the whole use, or nothing was measured.
alter table metric_minutes
  add column input_tokens integer,
  add column output_tokens integer,
  add column replica_usage jsonb;
