-- additive
-- Why a revision exists, who made it, and the commit it was built from. A previous version of the program leaves them null.
alter table revisions
  -- Counts the revisions of a deployment from 1.
  add column number integer,
  add column reason text,
  -- The actor of the audit log: key:<id>, member:<id>, system.
  add column made_by text,
  add column commit_message text,
  add column commit_author text;
update revisions r set number = n.number
  from (select id, row_number() over (partition by deployment_id order by seq) as number from revisions) n where n.id = r.id;
