-- What a listener said of itself when its newest session began: where it serves agents, what it can do, on what it runs.
alter table listeners add column facts jsonb not null default '{}';
