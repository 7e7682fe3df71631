-- additive
-- What a listener is asked to do besides its assignments: change nothing, log at another level than its own.
alter table listeners add column drain boolean not null default false;
alter table listeners add column log_level text;
