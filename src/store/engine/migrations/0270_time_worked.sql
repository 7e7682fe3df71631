-- additive
-- When a server last said that it looks for work, and when one did so after a pause: deadlines do not count the time in which
-- none did, nor does the silence of listeners, whom nobody could hear.
alter table clock add column worked_at timestamptz not null default now(), add column resumed_at timestamptz;
