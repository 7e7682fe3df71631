-- additive
-- When a server last said that it looks for work: deadlines do not count the time in which none did.
alter table clock add column worked_at timestamptz not null default now();
