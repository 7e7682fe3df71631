-- additive
-- A moment that moves with every deadline and lease when the clock of the database's machine is set: servers that see the
-- clock jump learn from it whether another one has moved them already. In milliseconds, as those servers count.
create table clock (mark timestamptz not null);
insert into clock (mark) values (date_trunc('milliseconds', now()));
