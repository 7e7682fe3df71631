-- additive
-- Form of the messages of a webhook: standard (signed JSON), slack, email.
alter table webhooks add column format text not null default 'standard' check (format in ('standard', 'slack', 'email'));
