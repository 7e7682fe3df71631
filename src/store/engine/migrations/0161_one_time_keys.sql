-- A key that is good for one thing: being exchanged for the key of its listener, once.
alter table api_keys add column one_time boolean not null default false;
