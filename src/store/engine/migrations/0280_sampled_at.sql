-- additive
-- The sample that was added last: one whose answer was lost is sent again. Null of minutes of an earlier version.
alter table metric_minutes add column sampled_at timestamptz;
