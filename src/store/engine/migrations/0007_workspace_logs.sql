-- additive
-- Searches of all logs of a workspace read the newest lines first, in short steps.
create index log_entries_workspace on log_entries (tenant_id, logged_at, id);
