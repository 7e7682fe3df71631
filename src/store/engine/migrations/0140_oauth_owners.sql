-- Which server refreshes a token or finishes a sign-in: a later start of the same installation ends what it left behind.
alter table oauth_tokens add column refresh_owner text;
alter table oauth_requests add column claimed_by text;
