-- What housekeeping looks for by age. Block ranges cost next to nothing to write, and rows arrive in this order.
create index log_entries_age on log_entries using brin (logged_at);
create index events_age on events using brin (created_at);
create index uploads_age on uploads (created_at);
