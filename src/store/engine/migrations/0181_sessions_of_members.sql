-- People sign in, too: a session stands for a key, or for a person, who is known by an address.
alter table sessions alter column api_key_id drop not null;
alter table sessions add column member_email text;
alter table sessions add constraint sessions_holder check (num_nonnulls(api_key_id, member_email) = 1);
create index members_email on members (email);

-- Sign-ins under way at the identity provider: a digest of what the browser holds that began one.
create table sign_ins (
  token_hash bytea primary key,
  expires_at timestamptz not null
);
create index sign_ins_expiry on sign_ins (expires_at);
